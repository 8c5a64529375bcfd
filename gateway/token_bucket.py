"""A bucket that fills at an even rate: what is in it may be taken at once. Policy: no clock.

More may be taken than is in it, because what a request costs is known only at its end; the
debt is paid before anything is given again, so that in the long run the rate holds exactly.
"""

SECONDS = 60.0


class TokenBucket:
    """One bucket; it begins full.

    Args:
        per_minute: What one minute brings, and the most that is in it, at least 1.
        now: Seconds, on a clock that never goes back.
    """

    __slots__ = ("_level", "_per_minute", "_updated")

    def __init__(self, per_minute: int, now: float) -> None:
        self._per_minute = per_minute
        self._level = float(per_minute)
        self._updated = now

    def wait_s(self, now: float) -> float:
        """How long until there is one in it; 0 where there is."""
        self._fill(now)
        missing = 1.0 - self._level
        return max(0.0, missing * SECONDS / self._per_minute)

    def take(self, amount: int, now: float) -> None:
        """Takes so many, whether they are there or not."""
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        brought = (now - self._updated) * self._per_minute / SECONDS
        self._level = min(float(self._per_minute), self._level + brought)
        self._updated = now
