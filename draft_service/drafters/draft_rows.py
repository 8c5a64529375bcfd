"""What one session has in draft KV, and which of its features wait to get there."""

from collections.abc import Sequence

from draft_service.drafters.feature_queue import FeatureQueue
from draft_service.drafters.head_network import Guesses, HeadNetwork, Ranking, TrueRows
from draft_service.row_extents import Extent, RowExtents


class DraftRows:
    """One session's rows.

    Args:
        network: Holds the rows.
        extents: Of its pool.

    Attributes:
        queue: Features that have arrived.
        root_guesses: What the head says follows on the last committed token; None where it has not
            seen all rows up to it.
    """

    def __init__(self, network: HeadNetwork, extents: RowExtents) -> None:
        self.queue = FeatureQueue()
        self.root_guesses: Guesses | None = None
        self._network, self._extents = network, extents
        self._extent: Extent | None = None

    @property
    def true_rows(self) -> int:
        """Rows in draft KV that were made from features of the target."""
        return self.queue.first_row

    @property
    def start(self) -> int:
        """Slot of the first row."""
        return 0 if self._extent is None else self._extent.start

    def awaited_row(self, token_count: int) -> int:
        """First row whose features are wanted, should the session be placed anew.

        Features of uncommitted tokens, and of the root, will come again and are forgotten.
        """
        self.queue.forget_from(token_count - 1)
        return self.queue.next_row

    def ready(self, token_count: int) -> int:
        """Rows that can be run: row p needs the token at p + 1 besides its feature."""
        return max(0, min(self.queue.next_row, token_count - 1) - self.true_rows)

    def reserve(self, more_rows: int) -> bool:
        """Makes room behind the true rows; False where the pool has none."""
        rows = self.true_rows + more_rows
        old, new = self._extent, self._extents.reserve(rows, self._extent)
        if new is None:
            return False
        self._extent = new
        if old is not None and new is not old:
            used = min(old.size, rows)
            try:
                self._network.move(
                    range(old.start, old.start + used), range(new.start, new.start + used)
                )
            finally:
                self._extents.release(old)
        return True

    def take(self, count: int, token_ids: Sequence[int], ranking: Ranking | None) -> TrueRows:
        """The pass that puts the next `count` ready rows into draft KV; room has been reserved."""
        first = self.true_rows
        features = self.queue.take(count)
        return TrueRows(
            first_row=first,
            token_ids=token_ids[first + 1 : first + 1 + count],
            features=features,
            slots=range(self.start, self.start + first + count),
            ranking=ranking,
        )

    def release(self) -> None:
        """Gives all rows back."""
        if self._extent is not None:
            self._extents.release(self._extent)
            self._extent = None
