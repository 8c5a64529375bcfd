"""Features that have arrived for one session and are not in its draft KV yet. Knows no tensors."""

from collections import deque
from dataclasses import replace

from outrider.protocol.messages import FeatureRows


class FeatureQueue:
    """Neighbouring rows, in order.

    Args:
        first_row: Row that is wanted first.
    """

    def __init__(self, first_row: int = 0) -> None:
        self.first_row = first_row  # the first one that is queued, or awaited where none is
        self.next_row = first_row  # the one behind the last
        self._pieces: deque[FeatureRows] = deque()

    def __len__(self) -> int:
        return self.next_row - self.first_row

    def push(self, rows: FeatureRows) -> bool:
        """Takes rows; those that were queued or taken before are ignored.

        Returns:
            False where rows are missing before them; nothing was taken then.
        """
        if rows.first_row > self.next_row:
            return False
        if rows.stop_row > self.next_row:
            self._pieces.append(_cut(rows, self.next_row, rows.stop_row))
            self.next_row = rows.stop_row
        return True

    def take(self, count: int) -> tuple[FeatureRows, ...]:
        """Removes the first `count` rows, at most those that are queued."""
        taken: list[FeatureRows] = []
        stop = self.first_row + count
        while self.first_row < stop:
            piece = self._pieces.popleft()
            if piece.stop_row > stop:
                self._pieces.appendleft(_cut(piece, stop, piece.stop_row))
                piece = _cut(piece, piece.first_row, stop)
            taken.append(piece)
            self.first_row = piece.stop_row
        return tuple(taken)

    def forget_from(self, row: int) -> None:
        """Removes the queued rows from `row` on."""
        while self._pieces and self.next_row > row:
            piece = self._pieces.pop()
            self.next_row = max(row, piece.first_row)
            if self.next_row > piece.first_row:
                self._pieces.append(_cut(piece, piece.first_row, self.next_row))


def _cut(rows: FeatureRows, start: int, stop: int) -> FeatureRows:
    """Rows [start, stop) of a piece that holds them."""
    if (start, stop) == (rows.first_row, rows.stop_row):
        return rows
    row_bytes = rows.row_size * rows.tensor_type.size
    first, last = ((row - rows.first_row) * row_bytes for row in (start, stop))
    return replace(rows, first_row=start, row_count=stop - start, data=rows.data[first:last])
