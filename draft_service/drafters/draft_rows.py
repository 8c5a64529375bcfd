"""What one session has in draft KV."""

from collections.abc import Sequence

from draft_service.drafters.draft_network import DraftNetwork, Guesses, Ranking, TrueRows
from draft_service.drafters.row_sources import RowSource
from draft_service.row_extents import Extent, RowExtents


class DraftRows:
    """One session's rows.

    Args:
        network: Holds the rows.
        extents: Of its pool.
        source: Gives the true ones.

    Attributes:
        root_guesses: What the network says follows on the last committed token; None where it has
            not seen all rows up to it.
    """

    def __init__(self, network: DraftNetwork, extents: RowExtents, source: RowSource) -> None:
        self.root_guesses: Guesses | None = None
        self._network, self._extents, self._source = network, extents, source
        self._extent: Extent | None = None

    @property
    def true_rows(self) -> int:
        """Rows of committed tokens in draft KV."""
        return self._source.taken_rows

    @property
    def start(self) -> int:
        """Slot of the first row."""
        return 0 if self._extent is None else self._extent.start

    def ready(self, token_count: int) -> int:
        """True rows that the next round may run."""
        return self._source.ready_rows(token_count)

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
        """The pass that puts the next `count` rows into draft KV; room has been reserved."""
        first = self.true_rows
        inputs = self._source.take(count, token_ids)
        return TrueRows(
            first_row=first,
            token_ids=inputs.token_ids,
            features=inputs.features,
            slots=range(self.start, self.start + first + count),
            ranking=ranking,
        )

    def release(self) -> None:
        """Gives all rows back."""
        if self._extent is not None:
            self._extents.release(self._extent)
            self._extent = None
