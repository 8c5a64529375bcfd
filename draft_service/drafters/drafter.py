"""The seam between the engine and a draft method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from draft_service.company import ALONE, Company
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable, FeatureRows
from outrider.protocol.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class TreeBudget:
    """How large one session's next tree may be, and what its rows cost.

    Args:
        max_nodes: Most nodes, the root included, at least 1.
        max_depth: Most drafted tokens on one path; 0 allows the root only.
        parallel_degree: Most children per node.
        cost_table: Time of a forward pass by its rows.
        company: What other sessions bring to the same pass.
        is_full: As many nodes are wanted as there may be; the cost table says that they are free.
    """

    max_nodes: int
    max_depth: int
    parallel_degree: int
    cost_table: CostTable
    company: Company = ALONE
    is_full: bool = False


class Drafter(Protocol):
    """A draft method. Sessions are told apart by their id; trees are built for many at once."""

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        """Takes a session with its prompt and committed tokens, and how its tokens are drawn."""

    def features_from(self, session_id: bytes) -> int | None:
        """First committed row whose features are wanted; None where none are, or no longer."""

    def take_features(self, rows: FeatureRows) -> None:
        """Takes features of committed rows; those of a round come before its `commit`."""

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """One tree per session, each rooted in its last committed token."""

    def prepare(self) -> bool:
        """Does a bounded piece of what no tree waits for, while verdicts are awaited.

        Returns:
            True where more of it is left.
        """

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """Learns what became of a session's last tree.

        Args:
            session_id: Session.
            accepted_indices: Nodes of the last tree that survived, without the root.
            token_ids: All newly committed tokens.
        """

    def close(self, session_id: bytes) -> None:
        """Forgets a session; unknown ones are ignored."""
