"""The method `none`: trees of the root alone, which is plain decoding."""

from collections.abc import Sequence

from draft_service.drafters.drafter import TreeBudget
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree


class NoDrafter:
    """Remembers each session's last token and nothing else."""

    def __init__(self) -> None:
        self._roots: dict[bytes, int] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        """As `Drafter.open`."""
        self._roots[session_id] = token_ids[-1]

    def features_from(self, session_id: bytes) -> None:
        """As `Drafter.features_from`: none are wanted."""

    def take_features(self, rows: FeatureRows) -> None:
        """As `Drafter.take_features`; never asked for."""

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        return [TokenTree.root_only(self._roots[session_id]) for session_id in session_ids]

    def prepare(self) -> bool:
        """As `Drafter.prepare`: there is nothing to prepare."""
        return False

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        self._roots[session_id] = token_ids[-1]

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        self._roots.pop(session_id, None)
