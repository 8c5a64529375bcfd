"""Attention over segments: new rows are stored in the pool, then each session reads its context.

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
from outrider.modeling.ragged_batch import PlacedSlots, RaggedSegment


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
    segments: Sequence[RaggedSegment],
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
        segments: One per session; together they cover all rows.
        rule: Of the layer.

    Returns:
        `[num_rows, heads, value_dim]`.
    """
    kv_pool.write(layer, write_slots.on(key.device), key.transpose(0, 1), value.transpose(0, 1))
    mixed = query.new_empty(*query.shape[:2], value.shape[2])
    for segment in segments:
        rows = slice(segment.start, segment.stop)
        keys, values = kv_pool.read(layer, segment.context_slots.on(key.device))
        mixed[rows] = _attend(query[rows], keys, values, segment, rule)
    return mixed


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, segment: RaggedSegment, rule: ScoreRule
) -> Tensor:
    """One session: query `[num_rows, heads, dim]`, keys `[kv_heads, context, dim]`."""
    num_rows, heads, dim = query.shape
    kv_heads = keys.shape[0]
    group = heads // kv_heads
    folded = query.transpose(0, 1).reshape(1, kv_heads, group * num_rows, dim)
    keys, values = keys[None], values[None]
    bias = segment.bias(rule.window, group, query)
    if rule.softcap is None and rule.sinks is None:
        mixed = functional.scaled_dot_product_attention(
            folded, keys, values, attn_mask=bias, scale=rule.scale
        )
    else:
        mixed = _attend_plainly(folded, keys, values, bias, rule)
    return mixed.view(heads, num_rows, -1).transpose(0, 1)


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
        kv_heads, rows = scores.shape[1], scores.shape[2]
        per_row = rule.sinks.view(kv_heads, -1, 1)
        per_row = per_row.expand(-1, -1, rows * kv_heads // rule.sinks.numel())
        scores = torch.cat([scores, per_row.reshape(1, kv_heads, rows, 1)], dim=-1)
    weights = scores.float().softmax(dim=-1).to(values.dtype)
    return weights[..., : keys.shape[2]] @ values
