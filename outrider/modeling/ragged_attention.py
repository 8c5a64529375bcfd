"""Attention over a ragged batch, as an attention function that `transformers` models call.

The pool's rows stand for the model's own cache.
"""

import torch
from torch import Tensor
from transformers import AttentionInterface

from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.ragged_batch import RaggedBatch
from outrider.modeling.segment_attention import ScoreRule, attend_segments

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
        kv_heads = value.shape[1]
        group = query.shape[1] // kv_heads
        return value.repeat_interleave(group, dim=1).transpose(1, 2), None
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    mixed = attend_segments(
        layer,
        query[0].transpose(0, 1),
        key[0].transpose(0, 1),
        value[0].transpose(0, 1),
        kv_pool=kv_pool,
        write_slots=ragged_batch.write_slots,
        groups=ragged_batch.groups,
        rule=ScoreRule(scale, sliding_window, softcap, s_aux),
    )
    return mixed[None], None


AttentionInterface.register(ATTENTION_NAME, ragged_attention)
