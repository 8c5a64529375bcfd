"""Rows of a draft network's pass, session by session: true rows as a chain, or one depth of a tree.

Nodes of one tree are run depth by depth, so a new row sees some of the node rows that lie in the
pool already. Whose rows they are, and when they are kept or overwritten, is the drafter's affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from outrider.modeling.placed_slots import PlacedSlots, as_slots
from outrider.modeling.ragged_segment import RaggedSegment
from outrider.modeling.segment_groups import SegmentGroup, group_segments


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
        tail_positions: As in `RaggedSegment`.
    """

    num_rows: int
    slots: range | list[int]
    visible: Tensor | None = None
    tail_positions: Tensor | None = None


class LaidOut(NamedTuple):
    """Segments of one pass.

    Args:
        groups: Together they cover all rows.
        write_slots: Where each row's keys and values go.
    """

    groups: Sequence[SegmentGroup]
    write_slots: PlacedSlots


def lay_end_to_end(segments: Sequence[DraftSegment]) -> LaidOut:
    """Makes one pass of at least one segment."""
    laid: list[RaggedSegment] = []
    write_slots: list[int] = []
    for segment in segments:
        start, cached_rows = len(write_slots), len(segment.slots) - segment.num_rows
        laid.append(
            RaggedSegment(
                start=start,
                stop=start + segment.num_rows,
                cached_rows=cached_rows,
                slots=segment.slots,
                visible=_visible(segment),
                tail_positions=segment.tail_positions,
            )
        )
        write_slots += segment.slots[cached_rows:]
    return LaidOut(group_segments(laid), as_slots(write_slots))


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
