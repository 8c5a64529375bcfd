"""Which sessions of a pass attend together: one call of the operator instead of one for each.

Such a call costs 20 us on a CPU and several launches on a GPU whatever it computes, in every layer.
Sessions that bring equally many rows, and whose contexts are about as long, are laid side by side
and padded to the longest; their rows of the pool are gathered, which a session alone is spared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import torch
from torch import Tensor

from outrider.modeling.placed_slots import PlacedSlots, as_slots
from outrider.modeling.ragged_segment import RaggedSegment

MOST_ROWS = 32  # of a session; longer pieces of prefill keep an operator busy by themselves
MOST_CONTEXT = 1024  # above, gathering costs what the calls would have cost
LEAST_FILLED = 0.7  # shortest context of a group over its longest


@dataclass(slots=True)
class SegmentGroup:
    """Sessions with equally many rows.

    Args:
        segments: At least one, in the order of their rows.
        num_rows: New rows of each.
        context: Rows of the longest context.
        rows: Their rows in the pass, session by session.
        context_slots: Slots of each session's context, padded with one of its own.
    """

    segments: Sequence[RaggedSegment]
    num_rows: int
    context: int
    rows: PlacedSlots
    context_slots: PlacedSlots
    _bias: dict[tuple[int | None, int, torch.dtype, torch.device], Tensor | None] = field(
        default_factory=dict
    )

    def bias(self, window: int | None, heads: int, like: Tensor) -> Tensor | None:
        """Additive attention mask, made once for all layers of a device.

        Args:
            window: As in `RaggedSegment.seen`.
            heads: Query heads per key-value head; the mask is repeated for each.
            like: Gives dtype and device.

        Returns:
            `[num_segments, 1, heads * num_rows, context]` of 0 and -inf, or None where all is seen.
        """
        key = (window, heads, like.dtype, like.device)
        if key not in self._bias:
            self._bias[key] = self._make_bias(window, heads, like)
        return self._bias[key]

    def _make_bias(self, window: int | None, heads: int, like: Tensor) -> Tensor | None:
        seen = [segment.seen(window) for segment in self.segments]
        is_padded = any(segment.context < self.context for segment in self.segments)
        if not is_padded and all(one is None for one in seen):
            return None
        hidden = torch.ones(len(seen), 1, self.num_rows, self.context, dtype=torch.bool)
        for place, (segment, visible) in enumerate(zip(self.segments, seen, strict=True)):
            hidden[place, 0, :, : segment.context] = False if visible is None else ~visible
        bias = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, -torch.inf)
        return bias.to(like.device).repeat(1, 1, heads, 1)


def group_segments(segments: Sequence[RaggedSegment]) -> list[SegmentGroup]:
    """Puts each segment of a pass into one group."""
    by_size = sorted(segments, key=lambda one: (one.num_rows, one.context))
    return [
        _grouped(sorted(cluster, key=attrgetter("start")))
        for _, alike in groupby(by_size, key=attrgetter("num_rows"))
        for cluster in _clusters(list(alike))
    ]


def _clusters(alike: Sequence[RaggedSegment]) -> Iterator[list[RaggedSegment]]:
    """Cuts segments with rising contexts where the next one is too long for the first."""
    cluster: list[RaggedSegment] = []
    for segment in alike:
        if cluster and not _fits(cluster[0], segment):
            yield cluster
            cluster = []
        cluster.append(segment)
    yield cluster


def _fits(shortest: RaggedSegment, longest: RaggedSegment) -> bool:
    return (
        longest.num_rows <= MOST_ROWS
        and longest.context <= MOST_CONTEXT
        and shortest.context >= LEAST_FILLED * longest.context
    )


def _grouped(segments: Sequence[RaggedSegment]) -> SegmentGroup:
    context = max(segment.context for segment in segments)
    rows = [row for segment in segments for row in range(segment.start, segment.stop)]
    if len(segments) == 1:
        context_slots = as_slots(segments[0].slots)
    else:
        padded = [slot for segment in segments for slot in _padded(segment.slots, context)]
        context_slots = PlacedSlots(torch.tensor(padded))
    return SegmentGroup(segments, segments[0].num_rows, context, as_slots(rows), context_slots)


def _padded(slots: range | list[int], count: int) -> list[int]:
    """So many slots; another session's numbers, which may not be numbers, never stand in."""
    return [*slots, *[slots[-1]] * (count - len(slots))]
