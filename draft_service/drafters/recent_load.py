"""How many sessions were open at once a moment ago: loads come back sooner than streams end."""

from dataclasses import dataclass

RECENT_S = 10.0


@dataclass(slots=True)
class RecentLoad:
    """The most sessions that were open at once over the last seconds, roughly.

    Args:
        peak: That many.
        seen_at: When so many were open last, seconds.
    """

    peak: int = 0
    seen_at: float = 0.0

    def note(self, session_count: int, now: float) -> int:
        """Takes how many are open now.

        Args:
            session_count: Open sessions.
            now: Seconds, on a clock that never goes back.

        Returns:
            The most that were open, these included.
        """
        if session_count >= self.peak or now - self.seen_at > RECENT_S:
            self.peak, self.seen_at = session_count, now
        return self.peak
