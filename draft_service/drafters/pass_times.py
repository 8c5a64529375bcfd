"""How long a draft network's passes take by their rows, learnt from the passes themselves."""

WEIGHT = 0.1  # of the newest pass in the running mean


class PassTimes:
    """Running means, one for each power of two of rows."""

    def __init__(self) -> None:
        self._micros: dict[int, float] = {}

    def note(self, rows: int, micros: float) -> None:
        """Takes one pass of at least one row."""
        size = (rows - 1).bit_length()
        known = self._micros.get(size)
        self._micros[size] = micros if known is None else known + WEIGHT * (micros - known)

    def micros(self, rows: int) -> float:
        """Time of a pass of so many rows: that of the nearest size known, 0 before the first."""
        size = (rows - 1).bit_length()
        nearest = min(self._micros, key=lambda known: (abs(known - size), known), default=None)
        return 0.0 if nearest is None else self._micros[nearest]
