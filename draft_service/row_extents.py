"""Who owns which slots of the draft KV pool: each session one run of neighbouring slots.

Being contiguous, a session's rows are read as a view. A run that has become too small is exchanged
for one of twice the size. Whole numbers only, no tensors.
"""

from typing import NamedTuple

SMALLEST = 64  # slots of a first run


class Extent(NamedTuple):
    """Slots `[start, start + size)`."""

    start: int
    size: int

    @property
    def stop(self) -> int:
        """Slot behind the last."""
        return self.start + self.size


class RowExtents:
    """The free slots of a pool.

    Args:
        slot_count: Slots of the pool, at least 1.
    """

    def __init__(self, slot_count: int) -> None:
        self.slot_count = slot_count
        self._free = [Extent(0, slot_count)]  # by start, never touching one another

    @property
    def in_use(self) -> int:
        """Slots that sessions own."""
        return self.slot_count - sum(run.size for run in self._free)

    def reserve(self, rows: int, old: Extent | None = None) -> Extent | None:
        """Finds a run for `rows` rows.

        Args:
            rows: Rows that must fit.
            old: The session's run so far. It stays the session's: where another one is returned,
                its rows are to be copied and then it is to be released.

        Returns:
            `old` where it is large enough, else a new run; None where there is no room.
        """
        if old is not None and rows <= old.size:
            return old
        comfortable = max(SMALLEST, 2 * (old.size if old else 0), rows + rows // 4)
        return self._take(comfortable) or self._take(rows)

    def release(self, run: Extent) -> None:
        """Takes a run back."""
        merged: list[Extent] = []
        for part in sorted([*self._free, run]):
            if merged and merged[-1].stop == part.start:
                merged[-1] = Extent(merged[-1].start, merged[-1].size + part.size)
            else:
                merged.append(part)
        self._free = merged

    def _take(self, size: int) -> Extent | None:
        for index, run in enumerate(self._free):
            if run.size >= size:
                left = Extent(run.start + size, run.size - size)
                self._free[index : index + 1] = [left] if left.size else []
                return Extent(run.start, size)
        return None
