"""Attention over a ragged batch, as an attention function that `transformers` models call.

The pool's rows stand for the model's own cache: new keys and values are stored first, then each
session's queries read its context from the pool. Query heads that share a key-value head are folded
into the query rows, so that keys and values are never repeated.
"""

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.ragged_batch import RaggedBatch, RaggedSegment

ATTENTION_NAME = "outrider_ragged"


class LayerProbe:
    """Stands in for the pool once, to learn what each layer produces."""

    def __init__(self) -> None:
        self.layers: dict[int, LayerShape] = {}

    def note(self, layer: int, key: Tensor, value: Tensor) -> None:
        """Takes the shape of one layer's keys and values, `[1, kv_heads, num_rows, dim]`."""
        self.layers[layer] = LayerShape(
            key.shape[1], key.shape[3], value.shape[3], key.dtype, key.device
        )


def ragged_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    kv_pool: KvPool | LayerProbe,
    ragged_batch: RaggedBatch,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """One layer's attention.

    Args:
        module: The attention layer; `layer_idx` names it.
        query: `[1, heads, num_rows, key_dim]`.
        key: `[1, kv_heads, num_rows, key_dim]`.
        value: `[1, kv_heads, num_rows, value_dim]`.
        attention_mask: Not used; the batch carries who sees whom.
        kv_pool: Where rows are kept, or a probe.
        ragged_batch: The batch.
        scaling: Factor of the scores; None is 1 / sqrt(key_dim).
        sliding_window: Rows that far behind are invisible, or None.
        softcap: Scores are squashed to plus or minus this, or None (Gemma 2).
        s_aux: Sink logits `[heads]`, or None (gpt-oss).

    Returns:
        `[1, num_rows, heads, value_dim]` and None (no attention weights).
    """
    layer = module.layer_idx
    assert isinstance(layer, int)
    if isinstance(kv_pool, LayerProbe):
        kv_pool.note(layer, key, value)
        kv_heads, value_dim = value.shape[1], value.shape[3]
        group = query.shape[1] // kv_heads
        return value.repeat_interleave(group, dim=1).transpose(1, 2), None
    kv_pool.write(layer, ragged_batch.write_slots, key[0], value[0])
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    heads, num_rows, value_dim = query.shape[1], query.shape[2], value.shape[3]
    output = query.new_empty(1, num_rows, heads, value_dim)
    for segment in ragged_batch.segments:
        rows = slice(segment.start, segment.stop)
        keys, values = kv_pool.read(layer, segment.context_slots)
        output[0, rows] = _attend(
            query[0, :, rows], keys, values, segment, scale, sliding_window, softcap, s_aux
        )
    return output, None


def _attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    segment: RaggedSegment,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """One session: query `[heads, num_rows, dim]`, keys `[kv_heads, context, dim]`."""
    heads, num_rows, dim = query.shape
    kv_heads = keys.shape[0]
    group = heads // kv_heads
    folded = query.reshape(1, kv_heads, group * num_rows, dim)
    keys, values = keys[None], values[None]
    bias = segment.bias(window, group, query)
    if softcap is None and sinks is None:
        mixed = functional.scaled_dot_product_attention(
            folded, keys, values, attn_mask=bias, scale=scale
        )
    else:
        mixed = _attend_plainly(folded, keys, values, bias, scale, softcap, sinks)
    return mixed.view(heads, num_rows, -1).transpose(0, 1)


def _attend_plainly(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """The same in separate steps, for what the fused operator cannot do."""
    scores = query @ keys.transpose(2, 3) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if sinks is not None:
        kv_heads, rows = scores.shape[1], scores.shape[2]
        per_row = sinks.view(kv_heads, -1, 1).expand(-1, -1, rows * kv_heads // sinks.numel())
        scores = torch.cat([scores, per_row.reshape(1, kv_heads, rows, 1)], dim=-1)
    weights = scores.float().softmax(dim=-1).to(values.dtype)
    return weights[..., : keys.shape[2]] @ values


AttentionInterface.register(ATTENTION_NAME, ragged_attention)
