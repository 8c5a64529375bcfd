"""How many threads a forward pass should use, learnt from how long passes take. Owns no threads.

A few rows are bound by memory, which one core can nearly saturate; a second thread helps only while
its core is free, and otherwise each of some two hundred layers waits for it. That changes with
whatever else the machine does, so both are tried again from time to time. Results do not change:
each output value is summed by one thread, in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_ROWS = 32  # beyond, a pass is bound by arithmetic and takes every thread there is
EXPLORE_EVERY = 32
SMOOTHING = 0.25  # weight of the latest time


@dataclass(slots=True)
class _Record:
    """What passes of about the same size took: the smoothed seconds of each option."""

    seconds: dict[int, float] = field(default_factory=dict)
    passes: int = 0


class ThreadChoice:
    """Chooses between some thread counts.

    Args:
        options: At least one, each at least 1; the largest serves large passes.
    """

    def __init__(self, options: Sequence[int]) -> None:
        self._options = sorted(set(options))
        self._records: dict[int, _Record] = {}

    def threads_for(self, num_rows: int) -> int:
        """Threads for the next pass of `num_rows` rows, at least 1."""
        if num_rows > MAX_ROWS or len(self._options) == 1:
            return self._options[-1]
        record = self._record(num_rows)
        record.passes += 1
        for option in reversed(self._options):
            if option not in record.seconds:
                return option
        best = min(self._options, key=record.seconds.__getitem__)
        if record.passes % EXPLORE_EVERY:
            return best
        others = [option for option in self._options if option != best]
        return others[record.passes // EXPLORE_EVERY % len(others)]

    def note(self, num_rows: int, threads: int, seconds: float) -> None:
        """Takes what a pass took."""
        if num_rows <= MAX_ROWS:
            known = self._record(num_rows).seconds
            before = known.get(threads, seconds)
            known[threads] = before + SMOOTHING * (seconds - before)

    def _record(self, num_rows: int) -> _Record:
        """Passes are alike where their rows round up to the same power of two."""
        return self._records.setdefault((num_rows - 1).bit_length(), _Record())
