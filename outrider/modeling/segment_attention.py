"""Attention over segments: new rows are stored in the pool, then sessions read their contexts.

Whose network asks is not known here: the target's layers and a head's both come with plain
queries, keys and values. Query heads that share a key-value head are folded into the query rows,
so that keys and values are never repeated.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from outrider.modeling.kv_pool import KvPool
from outrider.modeling.placed_slots import PlacedSlots
from outrider.modeling.segment_groups import SegmentGroup


class ScoreRule(NamedTuple):
    """How one layer turns products of queries and keys into weights.

    Args:
        scale: Factor of the scores.
        window: Rows that far behind are invisible, or None.
        softcap: Scores are squashed to plus or minus this, or None (Gemma 2).
        sinks: Sink logits `[heads]`, or None (gpt-oss).
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None


def attend_segments(
    layer: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    kv_pool: KvPool,
    write_slots: PlacedSlots,
    groups: Sequence[SegmentGroup],
    rule: ScoreRule,
) -> Tensor:
    """One layer's attention.

    Args:
        layer: Index of the layer in the pool.
        query: `[num_rows, heads, key_dim]`.
        key: `[num_rows, kv_heads, key_dim]`.
        value: `[num_rows, kv_heads, value_dim]`.
        kv_pool: Where rows are kept.
        write_slots: Where the new rows go.
        groups: Together they cover all rows.
        rule: Of the layer.

    Returns:
        `[num_rows, heads, value_dim]`.
    """
    device = key.device
    kv_pool.write(layer, write_slots.on(device), key.transpose(0, 1), value.transpose(0, 1))
    mixed = query.new_empty(*query.shape[:2], value.shape[2])
    for group in groups:
        rows = group.rows.on(device)
        context = kv_pool.read(layer, group.context_slots.on(device))
        mixed[rows] = _attend(query[rows], *context, group, rule)
    return mixed


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, group: SegmentGroup, rule: ScoreRule
) -> Tensor:
    """One group.

    Args:
        query: `[num_segments * num_rows, heads, dim]`.
        keys: `[kv_heads, num_segments * context, dim]`.
        values: The same, of their own size.
        group: The group.
        rule: Of the layer.

    Returns:
        `[num_segments * num_rows, heads, value_dim]`.
    """
    _, heads, dim = query.shape
    count, num_rows, kv_heads = len(group.segments), group.num_rows, keys.shape[0]
    shared_by = heads // kv_heads
    folded = query.view(count, num_rows, heads, dim).transpose(1, 2)
    folded = folded.reshape(count, kv_heads, shared_by * num_rows, dim)
    keys, values = (
        one.view(kv_heads, count, group.context, -1).transpose(0, 1) for one in (keys, values)
    )
    bias = group.bias(rule.window, shared_by, query)
    if rule.softcap is None and rule.sinks is None:
        mixed = functional.scaled_dot_product_attention(
            folded, keys, values, attn_mask=bias, scale=rule.scale
        )
    else:
        mixed = _attend_plainly(folded, keys, values, bias, rule)
    return mixed.reshape(count, heads, num_rows, -1).transpose(1, 2).flatten(0, 1)


def _attend_plainly(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, rule: ScoreRule
) -> Tensor:
    """The same in separate steps, for what the fused operator cannot do."""
    scores = query @ keys.transpose(2, 3) * rule.scale
    if rule.softcap is not None:
        scores = rule.softcap * torch.tanh(scores / rule.softcap)
    if bias is not None:
        scores = scores + bias
    if rule.sinks is not None:
        count, kv_heads, rows, _ = scores.shape
        per_row = rule.sinks.view(kv_heads, -1, 1)
        per_row = per_row.expand(-1, -1, rows * kv_heads // rule.sinks.numel())
        sinks = per_row.reshape(1, kv_heads, rows, 1).expand(count, -1, -1, -1)
        scores = torch.cat([scores, sinks], dim=-1)
    weights = scores.float().softmax(dim=-1).to(values.dtype)
    return weights[..., : keys.shape[2]] @ values
