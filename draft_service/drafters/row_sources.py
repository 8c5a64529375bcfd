"""Where a session's true rows come from. Knows no tensors.

A head's row p joins the features of position p with the token at p + 1 and guesses the token at
p + 2. A draft model's row p is the token at p and guesses the token at p + 1.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from draft_service.drafters.feature_queue import FeatureQueue
from outrider.protocol.messages import FeatureRows

ROUND_ROWS = 32  # a round waits for at most so many rows of a draft model; more are prefill


class RowInputs(NamedTuple):
    """What some neighbouring rows are made of.

    Args:
        token_ids: Token of each row.
        features: Of the same rows, in one or more pieces; none for a draft model.
    """

    token_ids: Sequence[int]
    features: Sequence[FeatureRows]


class RowSource(Protocol):
    """Gives the true rows of one session, in order, each once."""

    @property
    def taken_rows(self) -> int:
        """Rows that were taken."""

    def ready_rows(self, token_count: int) -> int:
        """Rows that the next round may take, where so many tokens are committed."""

    def take(self, count: int, token_ids: Sequence[int]) -> RowInputs:
        """Takes the next rows.

        Args:
            count: At least 1; that many are there.
            token_ids: Prompt and committed tokens.
        """


class HeadRowSource:
    """Rows of a head, as their features arrive.

    Attributes:
        queue: Features that have arrived.
    """

    def __init__(self) -> None:
        self.queue = FeatureQueue()

    @property
    def taken_rows(self) -> int:
        """As `RowSource.taken_rows`."""
        return self.queue.first_row

    def ready_rows(self, token_count: int) -> int:
        """As `RowSource.ready_rows`: those whose features and tokens are there."""
        return max(0, min(self.queue.next_row, token_count - 1) - self.taken_rows)

    def take(self, count: int, token_ids: Sequence[int]) -> RowInputs:
        """As `RowSource.take`."""
        first = self.taken_rows + 1
        return RowInputs(token_ids[first : first + count], self.queue.take(count))

    def awaited_row(self, token_count: int) -> int:
        """First row whose features are wanted, should the session be placed anew.

        Features of uncommitted tokens, and of the root, will come again and are forgotten.
        """
        self.queue.forget_from(token_count - 1)
        return self.queue.next_row


class ModelRowSource:
    """Rows of a draft model: all committed tokens."""

    def __init__(self) -> None:
        self.taken_rows = 0

    def ready_rows(self, token_count: int) -> int:
        """As `RowSource.ready_rows`: none while too many wait."""
        waiting = token_count - self.taken_rows
        return waiting if waiting <= ROUND_ROWS else 0

    def prefill_rows(self, token_count: int) -> int:
        """Rows to run between rounds: all but the last, whose guesses a round wants."""
        waiting = token_count - self.taken_rows
        return waiting - 1 if waiting > ROUND_ROWS else 0

    def take(self, count: int, token_ids: Sequence[int]) -> RowInputs:
        """As `RowSource.take`."""
        first = self.taken_rows
        self.taken_rows += count
        return RowInputs(token_ids[first : first + count], ())
