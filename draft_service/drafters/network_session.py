"""One session that is drafted with a head or a draft model."""

from dataclasses import dataclass
from typing import NamedTuple

from draft_service.drafters.draft_network import Ranking
from draft_service.drafters.draft_rows import DraftRows
from draft_service.drafters.growth import Growth, Sources
from draft_service.drafters.network_watch import NetworkWatch, RoundCost
from outrider.protocol.decoding import Sampling


class Turn(NamedTuple):
    """A round of a session, from one tree to the next.

    Args:
        asked: The network was asked for its tree.
        began: When that tree was drafted, seconds.
        token_count: Tokens that were there then.
    """

    asked: bool
    began: float
    token_count: int


@dataclass(slots=True, eq=False)
class NetworkSession:
    """A session.

    Args:
        session_id: Its id.
        token_ids: Prompt and committed tokens.
        sampling: How its tokens are drawn.
        is_coupled: True: guesses are ranked by the noise that the verify worker will use.
        sources: What its trees grow from.
        rows: Its draft KV; None where it has lost its network, or began while that rested.
        watch: Judges the network.
        tree: The outstanding one.
        cost: What that tree has cost; None where the network had no part in it.
        is_settled: Its first round, which holds its prefill, is over.
        turn: The round that is measured; None before.
    """

    session_id: bytes
    token_ids: list[int]
    sampling: Sampling
    is_coupled: bool
    sources: Sources
    rows: DraftRows | None
    watch: NetworkWatch
    tree: Growth | None = None
    cost: RoundCost | None = None
    is_settled: bool = False
    turn: Turn | None = None

    @property
    def ready_rows(self) -> int:
        """True rows that the next round may run."""
        return 0 if self.rows is None else self.rows.ready(len(self.token_ids))

    @property
    def true_rows(self) -> int:
        """Rows of committed tokens in draft KV."""
        return 0 if self.rows is None else self.rows.true_rows

    @property
    def growth(self) -> Growth:
        """The outstanding tree, where there is one."""
        assert self.tree is not None, "between draft and commit"
        return self.tree

    def next_turn(self, asks: bool, now: float) -> Turn | None:
        """The round that begins now, unless it is the first one."""
        is_first, self.is_settled = not self.is_settled, True
        return None if is_first else Turn(asks, now, len(self.token_ids))

    def ranking(self, width: int) -> Ranking:
        """How so many guesses are ranked."""
        return Ranking(self.sampling, self.is_coupled, width)
