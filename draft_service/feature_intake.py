"""Features of one placement on their way to a drafter: in order, without gaps, each row once.

What arrives for rows that are not committed yet is held until their verdict is taken, so a drafter
never has features of a token that it does not know. Knows rows and sizes only, not what is in them.

    rows [.., next_row - held)       handed to the drafter
    rows [next_row - held, next_row) held for a verdict
    rows [next_row, ..)              awaited
"""

from collections import deque

from outrider.protocol.messages import FeatureRows


class FeatureIntake:
    """Takes the features of one placement of a session.

    Args:
        row_size: Values of a row, as this side asked for them.
        first_row: First row that was asked for.
    """

    def __init__(self, row_size: int, first_row: int) -> None:
        self._row_size = row_size
        self._next_row = first_row
        self._held: deque[FeatureRows] = deque()

    def take(self, rows: FeatureRows, possible_rows: int) -> bool:
        """Takes what has arrived.

        Args:
            rows: Of the current epoch.
            possible_rows: Rows that can be committed by now: those that are, and the longest path
                of an outstanding tree with its root.

        Returns:
            False where it is dropped: rows of another size, rows before or behind the awaited one,
            or more of them than can be committed.
        """
        is_awaited = rows.first_row == self._next_row and rows.stop_row <= possible_rows
        if rows.row_size != self._row_size or not is_awaited:
            return False
        self._held.append(rows)
        self._next_row = rows.stop_row
        return True

    def due(self, committed_rows: int) -> list[FeatureRows]:
        """Gives up what is held, as far as it is committed."""
        due: list[FeatureRows] = []
        while self._held and self._held[0].stop_row <= committed_rows:
            due.append(self._held.popleft())
        return due

    def is_behind(self, committed_rows: int) -> bool:
        """True where features of committed rows are missing: after a verdict, they were lost."""
        return self._next_row < committed_rows
