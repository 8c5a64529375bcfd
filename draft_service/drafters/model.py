"""Drafting with a draft model: a small causal language model with the target's vocabulary.

It needs nothing of the target but the committed tokens. A long prompt is run in pieces while the
target runs it too; the first tree is not kept waiting.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from draft_service.drafters.draft_network import ModelNetwork
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.network_passes import OnDrop
from draft_service.drafters.network_session import NetworkSession
from draft_service.drafters.network_trees import NetworkOptions, NetworkTrees
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.row_sources import ModelRowSource
from draft_service.row_extents import RowExtents
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree

# Of one pass; a verdict that comes meanwhile waits for its end. On a CPU larger ones save nothing:
# 64, 128 and 256 rows of a 135M model took 340, 676 and 1311 ms on one busy core.
PREFILL_ROWS = 64


@dataclass(frozen=True, slots=True)
class _ReadSession:
    """A session, and what says which of its tokens were read."""

    session: NetworkSession
    source: ModelRowSource

    @property
    def prefill_rows(self) -> int:
        """Rows to run between rounds."""
        if self.session.rows is None:
            return 0
        return self.source.prefill_rows(len(self.session.token_ids))


class ModelDrafter:
    """A `Drafter`.

    Args:
        network: The draft model.
        extents: Slots of its pool.
        options: How it is used.
        on_drop: Told of each session that loses its draft model: id, reason, and words.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        network: ModelNetwork,
        extents: RowExtents,
        options: NetworkOptions,
        on_drop: OnDrop,
        clock: Callable[[], float],
    ) -> None:
        self._vocab_size, self._context_limit = network.vocab_size, network.context_limit
        self._trees = NetworkTrees(network, extents, options, on_drop, clock)
        self._read: dict[bytes, _ReadSession] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        """As `Drafter.open`."""
        source = ModelRowSource()
        session = self._trees.open(session_id, token_ids, sampling, source)
        self._read[session_id] = _ReadSession(session, source)
        self._check(session, token_ids)

    def features_from(self, session_id: bytes) -> None:
        """As `Drafter.features_from`: none are wanted."""

    def take_features(self, rows: FeatureRows) -> None:
        """As `Drafter.take_features`; never asked for."""

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        pairs = zip(session_ids, budgets, strict=True)
        return self._trees.draft(session_ids, [self._within(*pair) for pair in pairs])

    def prepare(self) -> bool:
        """As `Drafter.prepare`: runs prompts, the oldest session's first; none while it rests."""
        if self._trees.rests:
            return False
        counts: dict[NetworkSession, int] = {}
        left = PREFILL_ROWS
        for read in self._read.values():
            count = min(read.prefill_rows, left)
            if count:
                counts[read.session] = count
                left -= count
        self._trees.passes.absorb(counts, {})
        return any(read.prefill_rows for read in self._read.values())

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        self._trees.commit(session_id, accepted_indices, token_ids)
        self._check(self._read[session_id].session, token_ids)

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        self._trees.close(session_id)
        self._read.pop(session_id, None)

    def _within(self, session_id: bytes, budget: TreeBudget) -> TreeBudget:
        """The budget, as deep as the draft model has positions; its deepest nodes need none."""
        token_count = len(self._read[session_id].session.token_ids)
        deepest = max(0, self._context_limit - token_count + 1)
        return replace(budget, max_depth=min(budget.max_depth, deepest))

    def _check(self, session: NetworkSession, token_ids: Sequence[int]) -> None:
        """Takes the draft model away where it cannot read the session's tokens."""
        unknown = [token_id for token_id in token_ids if token_id >= self._vocab_size]
        if unknown:
            text = f"token {unknown[0]}, the draft model has {self._vocab_size}"
            self._trees.passes.drop(session, DropReason.UNKNOWN_TOKEN, text)
        if len(session.token_ids) > self._context_limit:
            text = f"the draft model was made for {self._context_limit} tokens"
            self._trees.passes.drop(session, DropReason.TOO_LONG, text)
