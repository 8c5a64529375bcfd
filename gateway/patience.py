"""How long a stream that lost its worker is tried again. Policy: times are arguments."""

from dataclasses import dataclass

FIRST_PAUSE_S = 0.05  # behind the second placement in a row that brought nothing; then twice that
LONGEST_PAUSE_S = 2.0
MAX_BARREN = 8  # placements in a row that bring nothing: the stream itself may be what kills them


@dataclass(slots=True)
class Patience:
    """How much longer a stream without progress is tried.

    Args:
        limit_s: Longest time without progress after a loss, seconds; 0: a loss ends the stream.
        barren: Placements in a row that brought nothing.
        lost_at: When the worker was lost, seconds; None: the stream gets on.
    """

    limit_s: float
    barren: int = 0
    lost_at: float | None = None

    def progressed(self) -> None:
        """A round came."""
        self.barren, self.lost_at = 0, None

    def lost(self, now: float) -> float:
        """The worker was lost.

        Returns:
            Seconds to wait before the next placement.
        """
        self.lost_at = now if self.lost_at is None else self.lost_at
        self.barren += 1
        if self.barren == 1:
            return 0.0
        return min(FIRST_PAUSE_S * 2.0 ** (self.barren - 2), LONGEST_PAUSE_S)

    def is_over(self, now: float) -> bool:
        """True where a lost stream is given up."""
        return self.barren > MAX_BARREN or now >= self.until

    @property
    def until(self) -> float:
        """When the stream is given up; before a loss nobody waits for a worker."""
        return float("-inf") if self.lost_at is None else self.lost_at + self.limit_s
