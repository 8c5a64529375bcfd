"""The seam between drafting and the tensors of a head or a draft model. Plain values, no torch.

A session's draft KV holds its true rows first and this round's node rows behind them; those are
guesses upon guesses, and the next true rows overwrite them.

    rows [0, true_rows)                  committed tokens; for a head, with features of the target
    rows [true_rows, true_rows + nodes)  nodes of the tree, in the order of their expansion

Which token a row holds and which one it guesses is the network's affair (`row_sources.py`).
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
    """What the network says follows on one row.

    Args:
        token_ids: Target token ids, best first.
        probs: Raw probability of each; not a number where the network is broken.
        feedback: What rows below this one are fed; the network's own affair.
    """

    token_ids: Sequence[int]
    probs: Sequence[float]
    feedback: object


@dataclass(frozen=True, slots=True)
class TrueRows:
    """One session's committed rows, of one pass.

    Args:
        first_row: Number of the first row; rows before it are in draft KV.
        token_ids: Token of each row, `[num_rows]`.
        features: Of the same rows, in order, in one or more pieces; none for a draft model.
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
        true_rows: True rows in draft KV.
        depth: Of the nodes, at least 1.
        token_ids: Their tokens, `[num_rows]`.
        feedbacks: Of the row above each, `[num_rows]`.
        ancestors: Node rows above each one, top down, by their place among this round's,
            `[num_rows]`.
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


class DraftNetwork(Protocol):
    """A head or a draft model over a pool of draft KV rows, for many sessions in one pass."""

    @property
    def slot_count(self) -> int:
        """Rows of the pool."""

    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """Runs true rows; what follows on the last row of each share, where wanted."""

    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """Runs node rows; what follows on each of them."""

    def move(self, source: range, destination: range) -> None:
        """Copies rows between slots."""


class HeadNetwork(DraftNetwork, Protocol):
    """A head."""

    @property
    def feature_size(self) -> int:
        """Values of one row's features."""


class ModelNetwork(DraftNetwork, Protocol):
    """A draft model."""

    @property
    def vocab_size(self) -> int:
        """Token ids that it can read are below this number."""

    @property
    def context_limit(self) -> int:
        """Positions that it was made for."""
