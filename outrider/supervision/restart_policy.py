"""When a crashed child is started again, and when that is given up. Knows no process, no clock."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Waits twice as long after each crash in a row, and gives up where they come too fast.

    Args:
        first_delay_s: Wait after the first crash within the window.
        max_delay_s: Longest wait.
        window_s: Crashes older than this are forgotten.
        max_crashes: This many within the window are too many, at least 1.

    Raises:
        ValueError: A value is out of range.
    """

    first_delay_s: float = 0.5
    max_delay_s: float = 8.0
    window_s: float = 60.0
    max_crashes: int = 5

    def __post_init__(self) -> None:
        if not 0 <= self.first_delay_s <= self.max_delay_s:
            raise ValueError(f"first_delay_s must be from 0 to {self.max_delay_s:g}")
        if self.window_s <= 0 or self.max_crashes < 1:
            raise ValueError("window_s must be above 0 and max_crashes at least 1")

    def delay_s(self, crash_times: Sequence[float]) -> float | None:
        """Decides after a crash.

        Args:
            crash_times: Times of all crashes of one child, rising; the last one is now. Seconds.

        Returns:
            Seconds to wait before the next start; None to give up.
        """
        now = crash_times[-1]
        recent = sum(1 for time in crash_times if now - time < self.window_s)
        if recent >= self.max_crashes:
            return None
        return float(min(self.first_delay_s * 2 ** (recent - 1), self.max_delay_s))
