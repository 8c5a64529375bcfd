"""A ragged batch: rows of many sessions, laid end to end for one forward pass.

Each session brings a *segment*: a chain of prefill, a token tree, or a chain with a tree behind it.
A row sees its session's cached rows and, within the segment, its ancestors and itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from outrider.modeling.kv_pool import Slots
from outrider.protocol.token_tree import ancestor_mask


class PlacedSlots:
    """Slots of some rows, copied once to each device whose layers ask for them.

    Args:
        slots: A slice, which needs no copy, or int64 `[num_rows]` on the CPU.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._copies: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Slots:
        """The slots, where that device can index with them."""
        if isinstance(self._slots, slice):
            return self._slots
        if device not in self._copies:
            self._copies[device] = self._slots.to(device)
        return self._copies[device]


@dataclass(slots=True)
class RaggedSegment:
    """One session's rows.

    Args:
        start: First row in the batch.
        stop: Row behind the last.
        cached_rows: Rows of the session in the pool before this batch.
        context_slots: Slots of its rows `[0, cached_rows + stop - start)`.
        visible: Bool `[num_rows, cached_rows + num_rows]`; None where a single row sees all.
        tail_positions: Positions of the last rows of the context, the new ones among them; rows
            before are at the positions that they are numbered by. None where no layer has a
            sliding window.
    """

    start: int
    stop: int
    cached_rows: int
    context_slots: PlacedSlots
    visible: Tensor | None
    tail_positions: Tensor | None = None
    _bias: dict[tuple[int | None, int, torch.dtype, torch.device], Tensor | None] = field(
        default_factory=dict
    )

    def bias(self, window: int | None, group: int, like: Tensor) -> Tensor | None:
        """Additive attention mask, made once for all layers of a device.

        Args:
            window: Rows that far behind are invisible (sliding-window layers), or None.
            group: Query heads per key-value head; the mask is repeated for each.
            like: Gives dtype and device.

        Returns:
            `[group * num_rows, cached_rows + num_rows]` of 0 and -inf, or None where all is seen.
        """
        key = (window, group, like.dtype, like.device)
        if key not in self._bias:
            self._bias[key] = self._make_bias(window, group, like)
        return self._bias[key]

    def _make_bias(self, window: int | None, group: int, like: Tensor) -> Tensor | None:
        num_rows, context = self.stop - self.start, self.cached_rows + self.stop - self.start
        visible = self.visible
        if window is not None and context > window:
            tail = self.tail_positions
            assert tail is not None, "a sliding window needs positions"
            positions = torch.cat([torch.arange(context - len(tail)), tail])
            near = positions[self.cached_rows :, None] - positions[None, :] < window
            visible = near if visible is None else visible & near
        if visible is None:
            return None
        bias = torch.zeros(num_rows, context, dtype=like.dtype)
        bias.masked_fill_(~visible, -torch.inf)
        return bias.to(like.device).repeat(group, 1)


@dataclass(slots=True)
class RaggedBatch:
    """One forward pass.

    Args:
        token_ids: int64 `[num_rows]`.
        position_ids: int64 `[num_rows]`.
        write_slots: Where each row's keys and values go.
        segments: One per session.
        logit_rows: Rows whose logits are wanted, int64 `[num_logit_rows]`.
        shares: What the batch was made of, where it may have to be made elsewhere too.
    """

    token_ids: Tensor
    position_ids: Tensor
    write_slots: PlacedSlots
    segments: list[RaggedSegment]
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
                context_slots=as_slots(share.slots),
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
        segments=segments,
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


def as_slots(slots: range | list[int]) -> PlacedSlots:
    """A slice where the slots rise one by one, so that the pool gives a view."""
    if isinstance(slots, range) or all(b - a == 1 for a, b in pairwise(slots)):
        return PlacedSlots(slice(slots[0], slots[-1] + 1))
    return PlacedSlots(torch.tensor(slots))
