"""One forward pass over many sessions, as plain values, and the seam to whoever runs it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from outrider.protocol.decoding import Sampling, TopLogProbs
from outrider.protocol.features import TensorType
from outrider.protocol.logit_rules import LogitRules, TokenHistory

EXIT_TARGET_LOST = 70  # EX_SOFTWARE of sysexits.h


class NonFiniteLogits(Exception):
    """The target gave NaN or infinity for one row; only that session may suffer."""


class NoTokenAllowed(Exception):
    """What a request asks for leaves no token at some place; the message says where."""


class TargetLost(Exception):
    """A part of the target is gone or in another step: no step can be run again, of no session."""


class Follower(Protocol):
    """A session's place in its grammar."""

    def allowed_behind(self, path: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may come behind some more tokens, `[vocab_size]`."""

    def extend(self, token_ids: Sequence[int]) -> None:
        """Takes tokens that were committed."""


class PendingFollower(Protocol):
    """A grammar that is being read."""

    def ready(self) -> Follower | None:
        """The session's place in it; None where it is still being read.

        Raises:
            BadGrammar: It cannot be used, or what was committed does not fit it.
        """


class Constraints(NamedTuple):
    """What may come in a session, beyond what temperature and filters say.

    Args:
        rules: Of the logits.
        history: Tokens so far; None where the rules do not count them.
        barred_ids: Tokens that may not come before position `barred_before`.
        barred_before: Absolute position.
        follower: Of the session's grammar; None where it has none.
    """

    rules: LogitRules
    history: TokenHistory | None
    barred_ids: frozenset[int]
    barred_before: int
    follower: Follower | None = None

    def extend(self, token_ids: Sequence[int]) -> None:
        """Takes tokens that were committed."""
        if self.history is not None:
            self.history.extend(token_ids)
        if self.follower is not None:
            self.follower.extend(token_ids)


@dataclass(frozen=True, slots=True)
class Segment:
    """One session's rows in a step: a prefill chunk, a tree, or the last chunk with its tree.

    Args:
        token_ids: `[num_rows]`.
        parents: `[num_rows]`; -1 attaches to the session's last cached row. Positions are
            `cached_rows + depth`.
        cached_rows: Rows of the session that are in the cache already.
        slots: Pool slots of the session's rows `[0, cached_rows + num_rows)`; a range where they
            are contiguous.
        tree_start: Row of the tree's root, or None for a chunk without a tree.
        sampling: How the session's tokens are drawn.
        feature_layers: Layers whose hidden states may be asked for afterwards, low to high; empty
            where none are.
        constraints: On the session's tokens; None: there are none.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]
    cached_rows: int
    slots: range | list[int]
    tree_start: int | None
    sampling: Sampling
    feature_layers: tuple[int, ...] = ()
    constraints: Constraints | None = None


class TargetTokens(Protocol):
    """The target's answers for the tree of one segment; nodes count from the tree's root."""

    def token_at(self, node: int) -> int:
        """The token behind a node.

        Raises:
            NonFiniteLogits: The node's logits are not finite.
            NoTokenAllowed: The request leaves none.
        """

    def likely_at(self, node: int, token_ids: Collection[int], threshold: float) -> int | None:
        """The likeliest of some tokens behind a node, if it is likely enough.

        Args:
            node: Which `token_at` was asked before.
            token_ids: At least one.
            threshold: Least probability over that of the most likely token, under the session's
                constraints and before temperature and filters; among equals the lower id.
        """

    def log_prob_at(self, node: int, token_id: int) -> float:
        """Log-probability of `token_id` behind a node, before constraints, temperature, filters."""

    def top_at(self, node: int, count: int) -> TopLogProbs:
        """The likeliest tokens behind a node and their log-probabilities, before the same."""


class FeatureBlock(NamedTuple):
    """Features of some rows of one segment.

    Args:
        data: Row by row, little-endian.
        row_size: Values of a row.
        tensor_type: Element type.
    """

    data: bytes
    row_size: int
    tensor_type: TensorType


class StepAnswers(Protocol):
    """What the target gave in one step, in the order of its segments."""

    @property
    def tokens(self) -> Sequence[TargetTokens | None]:
        """One per segment; None for those without a tree."""

    def features_of(self, rows: Sequence[Sequence[int]]) -> list[FeatureBlock | None]:
        """Copies features off the device, all of them at once.

        Args:
            rows: For each segment the rows of it whose features are wanted; none where it names no
                feature layers.

        Returns:
            One per segment; None where no rows are wanted.
        """


class Target(Protocol):
    """Runs steps and keeps the rows: the torch executor, or a table in tests."""

    def run(self, segments: Sequence[Segment]) -> StepAnswers:
        """One forward pass.

        Raises:
            TargetLost: The worker has to end.
        """

    def move_rows(self, sources: Sequence[int], destinations: Sequence[int]) -> None:
        """Copies rows of all layers between slots, as if all were read before any is written."""
