"""One session that is drafted with a head."""

from dataclasses import dataclass

from draft_service.drafters.draft_rows import DraftRows
from draft_service.drafters.growth import Growth, Sources
from draft_service.drafters.head_network import Ranking
from draft_service.drafters.head_watch import HeadWatch, RoundCost
from outrider.protocol.decoding import Sampling


@dataclass(slots=True, eq=False)
class HeadSession:
    """A session.

    Args:
        session_id: Its id.
        token_ids: Prompt and committed tokens.
        sampling: How its tokens are drawn.
        is_coupled: True: guesses are ranked by the noise that the verify worker will use.
        sources: What its trees grow from.
        rows: Its draft KV; None where it has lost its head.
        watch: Judges the head.
        rounds_behind: Rounds in a row after which features of committed rows were missing.
        tree: The outstanding one.
        cost: What that tree has cost; None where the head had no part in it.
    """

    session_id: bytes
    token_ids: list[int]
    sampling: Sampling
    is_coupled: bool
    sources: Sources
    rows: DraftRows | None
    watch: HeadWatch
    rounds_behind: int = 0
    tree: Growth | None = None
    cost: RoundCost | None = None

    @property
    def ready_rows(self) -> int:
        """Rows whose features and tokens are there and that are not in draft KV yet."""
        return 0 if self.rows is None else self.rows.ready(len(self.token_ids))

    @property
    def growth(self) -> Growth:
        """The outstanding tree, where there is one."""
        assert self.tree is not None, "between draft and commit"
        return self.tree

    def ranking(self, width: int) -> Ranking:
        """How so many guesses are ranked."""
        return Ranking(self.sampling, self.is_coupled, width)
