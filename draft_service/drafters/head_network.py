"""The seam between drafting with a head and the head's tensors. Plain values only, no torch.

Row p of a head joins the feature of position p with the token at p + 1 and guesses the token at
p + 2. A session's draft KV holds its true rows first and this round's node rows behind them; those
are guesses upon guesses, and the next true rows overwrite them.

    rows [0, true_rows)                  features of the target
    rows [true_rows, true_rows + nodes)  feedback of the head, in the order of their expansion
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows


class Ranking(NamedTuple):
    """How guesses are ranked.

    Args:
        sampling: How the verify worker will draw.
        is_coupled: True: with the noise that it will use; False: by probability alone.
        width: Guesses wanted, at least 1.
    """

    sampling: Sampling
    is_coupled: bool
    width: int


class Guesses(NamedTuple):
    """What the head says follows on one row.

    Args:
        token_ids: Target token ids, best first.
        probs: Raw probability of each; not a number where the head is broken.
        feedback: What rows below this one are fed; the network's own affair.
    """

    token_ids: Sequence[int]
    probs: Sequence[float]
    feedback: object


@dataclass(frozen=True, slots=True)
class TrueRows:
    """One session's rows with features, of one pass.

    Args:
        first_row: Position of the first row; rows before it are in draft KV.
        token_ids: Token behind each row's position, `[num_rows]`.
        features: Of the same rows, in order, in one or more pieces.
        slots: Pool slots of rows `[0, first_row + num_rows)`.
        ranking: How to rank what follows on the last row; None: not wanted.
    """

    first_row: int
    token_ids: Sequence[int]
    features: Sequence[FeatureRows]
    slots: range
    ranking: Ranking | None


@dataclass(frozen=True, slots=True)
class NodeRows:
    """One session's tree nodes of one depth, of one pass.

    Args:
        true_rows: Rows with true features in draft KV.
        depth: Of the nodes, at least 1.
        token_ids: Their tokens, `[num_rows]`.
        feedbacks: Of the row above each, `[num_rows]`.
        ancestors: Node rows above each one, by their place among this round's, `[num_rows]`.
        slots: Pool slots of all rows up to these: true rows, node rows before, these.
        ranking: How to rank what follows on each.
    """

    true_rows: int
    depth: int
    token_ids: Sequence[int]
    feedbacks: Sequence[object]
    ancestors: Sequence[Sequence[int]]
    slots: range
    ranking: Ranking


class HeadNetwork(Protocol):
    """A head over a pool of draft KV rows, for many sessions in one pass."""

    @property
    def slot_count(self) -> int:
        """Rows of the pool."""

    @property
    def feature_size(self) -> int:
        """Values of one row's features."""

    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """Runs true rows; what follows on the last row of each share, where wanted."""

    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """Runs node rows; what follows on each of them."""

    def move(self, source: range, destination: range) -> None:
        """Copies rows between slots."""
