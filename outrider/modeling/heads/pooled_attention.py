"""Attention of a head over its own pool of draft KV, as the `Attend` callback of one pass.

Rows come in runs: true rows as a chain, or one depth of a token tree. Whose they are, and when
rows are kept or overwritten, is the drafter's affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.ragged_batch import RaggedSegment, as_slots
from outrider.modeling.segment_attention import ScoreRule, attend_segments


@dataclass(frozen=True, slots=True)
class DraftSegment:
    """One session's rows of a pass.

    Args:
        num_rows: New rows, at least 1.
        slots: Slots of all rows of the session that they may see, the new ones last; a range where
            contiguous.
        visible: Which of the last `tail` rows (the new ones among them, and last) each new row
            sees, bool `[num_rows, tail]`, itself included; all rows before are seen. None: the new
            rows are a chain.
    """

    num_rows: int
    slots: range | list[int]
    visible: Tensor | None = None


class PooledAttention:
    """An `Attend` for one pass; the pass's rows are those of the segments, end to end.

    Args:
        kv_pool: With one layer per layer of the head.
        segments: At least one.
    """

    def __init__(self, kv_pool: KvPool, segments: Sequence[DraftSegment]) -> None:
        self._pool = kv_pool
        self._segments: list[RaggedSegment] = []
        write_slots: list[int] = []
        for segment in segments:
            start, cached_rows = len(write_slots), len(segment.slots) - segment.num_rows
            self._segments.append(
                RaggedSegment(
                    start=start,
                    stop=start + segment.num_rows,
                    cached_rows=cached_rows,
                    context_slots=as_slots(segment.slots),
                    visible=_visible(segment),
                )
            )
            write_slots += segment.slots[cached_rows:]
        self._write_slots = as_slots(write_slots)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As `Attend`, without leading dimensions; the rows' keys and values are stored."""
        return attend_segments(
            layer,
            query,
            key,
            value,
            kv_pool=self._pool,
            write_slots=self._write_slots,
            segments=self._segments,
            rule=ScoreRule(query.shape[-1] ** -0.5),
        )


def draft_layers(
    config: HeadConfig, dtype: torch.dtype, device: str | torch.device
) -> list[LayerShape]:
    """What each layer of a head stores per row, for its `KvPool`."""
    size = config.head_dim
    layer = LayerShape(config.num_kv_heads, size, size, dtype, torch.device(device))
    return [layer] * config.num_layers


def _visible(segment: DraftSegment) -> Tensor | None:
    """Who sees whom over the whole context, or None where all is seen."""
    num_rows, tail = segment.num_rows, segment.visible
    if tail is None:
        if num_rows == 1:
            return None
        tail = torch.ones(num_rows, num_rows, dtype=torch.bool).tril()
    visible = torch.ones(num_rows, len(segment.slots), dtype=torch.bool)
    visible[:, -tail.shape[1] :] = tail
    return visible
