"""How fast places become free, learnt from how long requests held theirs. Policy: no clock."""

FEWEST = 8  # before so many have ended, nothing is said
WEIGHT = 1 / 16  # of the newest


class ServiceRate:
    """The rate of one gateway.

    Args:
        places: Requests that run at once, at least 1.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._count = 0
        self._mean_s = 0.0

    def ended(self, held_s: float) -> None:
        """A request gave its place back.

        Args:
            held_s: How long it held it, seconds.
        """
        self._count += 1
        self._mean_s += (held_s - self._mean_s) * max(WEIGHT, 1 / self._count)

    def wait_s(self, ahead: int) -> float | None:
        """How long until the turn of a request, while all places are taken.

        Args:
            ahead: Turns that come before.

        Returns:
            Seconds to expect; None where too little is known.
        """
        if self._count < FEWEST:
            return None
        return (ahead + 1) * self._mean_s / self._places
