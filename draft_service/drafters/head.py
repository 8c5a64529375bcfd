"""Drafting with a head, and in the hybrid with the session's own text beside it.

A head reads features of the target, which arrive as rows are committed; they replace what it fed
itself while its last tree grew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draft_service.drafters.draft_network import HeadNetwork
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.network_passes import OnDrop
from draft_service.drafters.network_session import NetworkSession
from draft_service.drafters.network_trees import PASS_ROWS, NetworkOptions, NetworkTrees
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.row_sources import HeadRowSource
from draft_service.row_extents import RowExtents
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree

MAX_ROUNDS_BEHIND = 8  # lost features are asked for again; where they stay away, that is given up


@dataclass(slots=True)
class _FedSession:
    """A session, what feeds it, and after how many rounds in a row features were missing."""

    session: NetworkSession
    source: HeadRowSource
    rounds_behind: int = 0


class HeadDrafter:
    """A `Drafter`.

    Args:
        network: The head.
        extents: Slots of its pool; drafters that share a network share them too.
        options: How the head is used.
        on_drop: Told of each session that loses its head: id, reason, and words.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        network: HeadNetwork,
        extents: RowExtents,
        options: NetworkOptions,
        on_drop: OnDrop,
        clock: Callable[[], float],
    ) -> None:
        self._feature_size = network.feature_size
        self._trees = NetworkTrees(network, extents, options, on_drop, clock)
        self._fed: dict[bytes, _FedSession] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        """As `Drafter.open`."""
        source = HeadRowSource()
        session = self._trees.open(session_id, token_ids, sampling, source)
        self._fed[session_id] = _FedSession(session, source)

    def features_from(self, session_id: bytes) -> int | None:
        """As `Drafter.features_from`."""
        fed = self._fed[session_id]
        if fed.session.rows is None:
            return None
        return fed.source.awaited_row(len(fed.session.token_ids))

    def take_features(self, rows: FeatureRows) -> None:
        """As `Drafter.take_features`; the rows of a long prompt are run as they arrive, or not at
        all where others have come meanwhile and the head rests."""
        fed, passes = self._fed.get(rows.session_id), self._trees.passes
        if fed is None or fed.session.rows is None:
            return
        session = fed.session
        if rows.row_size != self._feature_size:
            text = f"{rows.row_size} values a row, the head takes {self._feature_size}"
            passes.drop(session, DropReason.WRONG_FEATURES, text)
        elif not fed.source.queue.push(rows):
            text = f"before row {rows.first_row}"
            passes.drop(session, DropReason.MISSING_FEATURES, text)
        if session.ready_rows > PASS_ROWS and self._trees.rests:
            passes.drop(session, DropReason.RESTING, "before its prompt was read")
        while session.ready_rows > PASS_ROWS:
            passes.absorb({session: PASS_ROWS}, {})

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        return self._trees.draft(session_ids, budgets)

    def prepare(self) -> bool:
        """As `Drafter.prepare`: rows are run as their features arrive."""
        return False

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        self._trees.commit(session_id, accepted_indices, token_ids)
        fed = self._fed[session_id]
        is_behind = fed.source.queue.next_row < len(fed.session.token_ids) - 1
        fed.rounds_behind = fed.rounds_behind + 1 if is_behind else 0
        if fed.rounds_behind > MAX_ROUNDS_BEHIND:
            text = f"for {fed.rounds_behind} rounds"
            self._trees.passes.drop(fed.session, DropReason.MISSING_FEATURES, text)

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        self._trees.close(session_id)
        self._fed.pop(session_id, None)
