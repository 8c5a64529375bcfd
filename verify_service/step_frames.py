"""What the first rank tells the others in each step, as whole numbers: no pickle, no strings.

    pass   kind, sessions, then for each: rows, cached rows, logits from, runs of slots;
           token ids [rows], parents [rows], first slot and length of each run [2 * runs]
    moves  kind, rows; source slots [rows], destination slots [rows]
    end    kind

Slots come in runs, one or one for each gap between a session's blocks. Ranks run one version of
this code with the same settings, so nothing is checked here but that a frame is whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from outrider.modeling.ragged_batch import SegmentRows

Frame = NDArray[np.int64]


class FrameKind(IntEnum):
    """The first number of a frame."""

    END = 0
    PASS = 1
    MOVES = 2


@dataclass(frozen=True, slots=True)
class Pass:
    """Run one forward pass."""

    shares: list[SegmentRows]


@dataclass(frozen=True, slots=True)
class Moves:
    """Copy rows between slots, as if all were read before any is written."""

    sources: list[int]
    destinations: list[int]


@dataclass(frozen=True, slots=True)
class End:
    """There is no other step."""


Order = Pass | Moves | End


def encode(order: Order) -> Frame:
    """The numbers of an order, int64 `[at least 1]`."""
    match order:
        case Pass(shares):
            head = np.array([FrameKind.PASS, len(shares)], np.int64)
            return np.concatenate([head, *(part for share in shares for part in _parts(share))])
        case Moves(sources, destinations):
            return np.array([FrameKind.MOVES, len(sources), *sources, *destinations], np.int64)
        case End():
            return np.array([FrameKind.END], np.int64)


def decode(frame: Frame) -> Order:
    """The order of some numbers.

    Raises:
        ValueError: They are not those of one order.
    """
    reader = _Reader(frame)
    match reader.take(1)[0]:
        case FrameKind.PASS:
            order: Order = Pass([_share(reader) for _ in range(reader.take(1)[0])])
        case FrameKind.MOVES:
            count = reader.take(1)[0]
            order = Moves(reader.take(count), reader.take(count))
        case FrameKind.END:
            order = End()
        case kind:
            raise ValueError(f"a frame of kind {kind}")
    reader.finish()
    return order


class _Reader:
    """Takes numbers from the front."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._place = 0

    def take(self, count: int) -> list[int]:
        taken: list[int] = self._frame[self._place : self._place + count].tolist()
        if len(taken) != count:
            raise ValueError(f"a frame of {len(self._frame)} numbers ends too early")
        self._place += count
        return taken

    def finish(self) -> None:
        if self._place != len(self._frame):
            raise ValueError(f"{len(self._frame) - self._place} numbers behind the end of a frame")


def _parts(share: SegmentRows) -> list[Frame]:
    runs = _runs(share.slots)
    head = [len(share.token_ids), share.cached_rows, share.logits_from, len(runs)]
    lists: Sequence[Sequence[int]] = (head, share.token_ids, share.parents)
    return [*(np.array(one, np.int64) for one in lists), runs.reshape(-1)]


def _share(reader: _Reader) -> SegmentRows:
    num_rows, cached_rows, logits_from, run_count = reader.take(4)
    token_ids, parents = reader.take(num_rows), reader.take(num_rows)
    runs = reader.take(2 * run_count)
    ranges = [range(a, a + n) for a, n in zip(runs[::2], runs[1::2], strict=True)]
    slots = ranges[0] if run_count == 1 else [slot for one in ranges for slot in one]
    return SegmentRows(token_ids, parents, cached_rows, slots, logits_from)


def _runs(slots: range | list[int]) -> Frame:
    """First slot and length of each run of slots that rise one by one, int64 `[runs, 2]`."""
    if isinstance(slots, range):
        return np.array([[slots.start, len(slots)]], np.int64)
    all_slots = np.array(slots, np.int64)
    starts = np.flatnonzero(np.diff(all_slots, prepend=all_slots[0] - 2) != 1)
    lengths = np.diff(starts, append=len(all_slots))
    return np.stack([all_slots[starts], lengths], axis=1)
