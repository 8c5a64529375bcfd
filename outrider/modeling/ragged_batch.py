"""A ragged batch: rows of many sessions, laid end to end for one forward pass.

Each session brings a *segment*: a chain of prefill, a token tree, or a chain with a tree behind it.
A row sees its session's cached rows and, within the segment, its ancestors and itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from outrider.modeling.placed_slots import PlacedSlots, as_slots
from outrider.modeling.ragged_segment import RaggedSegment
from outrider.modeling.segment_groups import SegmentGroup, group_segments
from outrider.protocol.token_tree import ancestor_mask


@dataclass(slots=True)
class RaggedBatch:
    """One forward pass.

    Args:
        token_ids: int64 `[num_rows]`.
        position_ids: int64 `[num_rows]`.
        write_slots: Where each row's keys and values go.
        groups: The sessions, those that attend together in one.
        logit_rows: Rows whose logits are wanted, int64 `[num_logit_rows]`.
        shares: What the batch was made of, where it may have to be made elsewhere too.
    """

    token_ids: Tensor
    position_ids: Tensor
    write_slots: PlacedSlots
    groups: Sequence[SegmentGroup]
    logit_rows: Tensor
    shares: Sequence["SegmentRows"] = ()


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """One session's share as plain values.

    Args:
        token_ids: `[num_rows]`.
        parents: `[num_rows]`, -1 for rows that follow the cached ones directly.
        cached_rows: Rows in the pool already.
        slots: Slots of rows `[0, cached_rows + num_rows)`; a range where contiguous.
        logits_from: Logits are wanted from this row on; `num_rows` for none.
    """

    token_ids: Sequence[int]
    parents: Sequence[int]
    cached_rows: int
    slots: range | list[int]
    logits_from: int


def build_ragged_batch(shares: Sequence[SegmentRows]) -> RaggedBatch:
    """Lays the shares end to end, at least one row in all; tensors are made on the CPU."""
    token_ids: list[int] = []
    positions: list[int] = []
    write_slots: list[int] = []
    logit_rows: list[int] = []
    segments: list[RaggedSegment] = []
    for share in shares:
        start, num_rows = len(token_ids), len(share.token_ids)
        new_positions = [share.cached_rows + depth for depth in _depths(share.parents)]
        segments.append(
            RaggedSegment(
                start=start,
                stop=start + num_rows,
                cached_rows=share.cached_rows,
                slots=share.slots,
                visible=_visible(share.parents, share.cached_rows),
                tail_positions=torch.tensor(new_positions),
            )
        )
        token_ids += share.token_ids
        positions += new_positions
        write_slots += share.slots[share.cached_rows :]
        logit_rows += range(start + share.logits_from, start + num_rows)
    return RaggedBatch(
        token_ids=torch.tensor(token_ids),
        position_ids=torch.tensor(positions),
        write_slots=as_slots(write_slots),
        groups=group_segments(segments),
        logit_rows=torch.tensor(logit_rows, dtype=torch.int64),
        shares=shares,
    )


def _depths(parents: Sequence[int]) -> list[int]:
    depths = [0] * len(parents)
    for row, parent in enumerate(parents):
        if parent >= 0:
            depths[row] = depths[parent] + 1
    return depths


def _visible(parents: Sequence[int], cached_rows: int) -> Tensor | None:
    num_rows = len(parents)
    if num_rows == 1:
        return None
    visible = torch.ones(num_rows, cached_rows + num_rows, dtype=torch.bool)
    is_chain = all(parent == row - 1 for row, parent in enumerate(parents))
    visible[:, cached_rows:] = (
        torch.ones(num_rows, num_rows, dtype=torch.bool).tril()
        if is_chain
        else torch.from_numpy(ancestor_mask(parents))
    )
    return visible
