"""Attention of a head over its own pool of draft KV, as the `Attend` callback of one pass."""

from collections.abc import Sequence

import torch
from torch import Tensor

from outrider.modeling.draft_segments import DraftSegment, lay_end_to_end
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.segment_attention import ScoreRule, attend_segments


class PooledAttention:
    """An `Attend` for one pass; the pass's rows are those of the segments, end to end.

    Args:
        kv_pool: With one layer per layer of the head.
        segments: At least one.
    """

    def __init__(self, kv_pool: KvPool, segments: Sequence[DraftSegment]) -> None:
        self._pool = kv_pool
        self._laid = lay_end_to_end(segments)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Attend`, without leading dimensions; the rows' keys and values are stored."""
        return attend_segments(
            layer,
            query,
            key,
            value,
            kv_pool=self._pool,
            write_slots=self._laid.write_slots,
            groups=self._laid.groups,
            rule=ScoreRule(query.shape[-1] ** -0.5),
        )


def draft_layers(
    config: HeadConfig, dtype: torch.dtype, device: str | torch.device
) -> list[LayerShape]:
    """What each layer of a head stores per row, for its `KvPool`."""
    size = config.head_dim
    layer = LayerShape(config.num_kv_heads, size, size, dtype, torch.device(device))
    return [layer] * config.num_layers
