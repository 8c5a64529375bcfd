"""Chooses the rows of the next step and reserves their place in the KV pool.

The oldest session reserves first: whatever it needs it can take from younger ones, so it always
gets on, and in turn so does everybody. A preempted session keeps its tokens and is prefilled again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from verify_service.counters import Counters
from verify_service.kv_blocks import KvBlocks
from verify_service.scheduler import Share, plan_shares
from verify_service.sessions import VerifySession
from verify_service.step import Segment


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: each session with the rows it runs."""

    sessions: list[VerifySession]
    segments: list[Segment]

    @property
    def num_rows(self) -> int:
        """Rows of the pass."""
        return sum(len(segment.token_ids) for segment in self.segments)

    @property
    def tree_sizes(self) -> list[int]:
        """Nodes of each tree of the pass."""
        return [
            len(segment.token_ids) - segment.tree_start
            for segment in self.segments
            if segment.tree_start is not None
        ]


class StepPlanner:
    """Plans steps over the sessions of one worker.

    Args:
        sessions: All open sessions, however they change.
        blocks: The KV pool's blocks.
        token_budget: Most rows of a step.
        counters: Told of preemptions and of shared rows.
    """

    def __init__(
        self,
        sessions: Iterable[VerifySession],
        blocks: KvBlocks,
        token_budget: int,
        counters: Counters,
    ) -> None:
        self._sessions = sessions
        self._blocks = blocks
        self._token_budget = token_budget
        self._counters = counters

    @property
    def waiting(self) -> list[VerifySession]:
        """Sessions with a pending tree, the longest-waiting first; without one nothing is asked."""
        waiting = [session for session in self._sessions if session.may_run]
        return sorted(waiting, key=lambda session: (session.waiting_since, session.age))

    def plan(self) -> Step | None:
        """The next step, its rows reserved; None where nothing can run."""
        waiting = self.waiting
        for session in waiting:
            if not session.table.blocks:
                self._share(session)
        shares = plan_shares([session.demand() for session in waiting], self._token_budget)
        shares.sort(key=lambda share: waiting[share.index].age)
        step = Step([], [])
        preempted: list[VerifySession] = []
        for share in shares:
            session = waiting[share.index]
            if session not in preempted and self._reserve(session, share, step, preempted):
                step.sessions.append(session)
                step.segments.append(_segment(session, share))
        return step if step.segments else None

    def _share(self, session: VerifySession) -> None:
        """Begins with the rows of others, or its own of before it was preempted."""
        wanted = len(session.token_ids) - 1
        names = session.names.of(session.token_ids, wanted)
        session.cached_rows = self._blocks.share(session.table, names)

    def _reserve(
        self, session: VerifySession, share: Share, step: Step, preempted: list[VerifySession]
    ) -> bool:
        """Makes room for a share, preempting younger sessions that are not in `step`."""
        rows = share.prefill_rows + (session.demand().tree_rows if share.with_tree else 0)
        needed = session.cached_rows + rows
        while not self._blocks.can_reserve(session.table, needed):
            younger = [
                other
                for other in self._sessions
                if other.age > session.age and other.table.blocks and other not in step.sessions
            ]
            if not younger:
                return False
            victim = max(younger, key=lambda other: other.age)
            self._blocks.release(victim.table)
            victim.cached_rows = 0
            victim.is_fresh = True
            preempted.append(victim)
            self._counters.preemptions += 1
        if session.is_fresh:
            session.is_fresh = False
            self._counters.prefix_rows += len(session.token_ids) - 1
            self._counters.prefix_hit_rows += session.cached_rows
        self._blocks.reserve(session.table, needed)
        return True


def _segment(session: VerifySession, share: Share) -> Segment:
    """The rows of a share: a chain of prefill, then the tree with its root hung behind it."""
    start, prefill_rows = session.cached_rows, share.prefill_rows
    token_ids = session.token_ids[start : start + prefill_rows]
    parents = list(range(-1, prefill_rows - 1))
    if share.with_tree and session.tree is not None:
        token_ids += session.tree.token_ids
        # The root's parent, -1, becomes the last row of prefill, or -1 again where there is none.
        parents += [parent + prefill_rows for parent in session.tree.parents]
    stop = start + len(token_ids)
    return Segment(
        token_ids=tuple(token_ids),
        parents=tuple(parents),
        cached_rows=start,
        slots=session.table.slots(0, stop),
        tree_start=prefill_rows if share.with_tree else None,
        sampling=session.opened.sampling,
        feature_layers=session.feature_layers,
        constraints=session.constraints,
    )
