"""Trees of sessions that are drafted with a head or a draft model, and perhaps their own text.

A session has draft KV and a network to ask until that fails; it is then drafted from its text
alone, or not at all, and its stream never notices. One call of `draft` runs one pass over newly
committed rows and then one pass for each level of the trees, all sessions together. Where streams
go on faster without the network it rests: committed rows wait until they fill a pass, and sessions
that begin meanwhile have no network, so that their prompts cost it nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draft_service.drafters.acceptance_rates import AcceptanceRates
from draft_service.drafters.calibration import Calibration
from draft_service.drafters.draft_network import DraftNetwork
from draft_service.drafters.draft_rows import DraftRows
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.growth import Growth, Sources
from draft_service.drafters.hindsight import learn
from draft_service.drafters.network_passes import NetworkPasses, OnDrop
from draft_service.drafters.network_session import NetworkSession
from draft_service.drafters.network_watch import DropReason, NetworkWatch, RoundCost
from draft_service.drafters.ngram_text import NgramText
from draft_service.drafters.pace import Pace
from draft_service.drafters.recent_load import RecentLoad
from draft_service.drafters.row_sources import RowSource
from draft_service.row_extents import RowExtents
from draft_service.tree_shape import LevelTimes, TreeShape
from outrider.protocol.decoding import Sampling
from outrider.protocol.token_tree import TokenTree

PASS_ROWS = 256  # most true rows of one pass
FRESH_ROWS = 64  # more rows of a session at once are prefill, which is not held against the network


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """How a method uses a draft network.

    Args:
        shape: Which nodes are expanded and sent.
        has_text: True: the session's own text proposes nodes too.
        is_coupled: True: at temperatures above 0 guesses are ranked by the noise that the verify
            worker will use.
        may_rest: True: the network is not asked while streams go on faster without it.
    """

    shape: TreeShape
    has_text: bool = False
    is_coupled: bool = True
    may_rest: bool = True


class NetworkTrees:
    """What drafting with a head and with a draft model have in common.

    Args:
        network: The head or draft model.
        extents: Slots of its pool; methods that share a network share them too.
        options: How the network is used.
        on_drop: Told of each session that loses its network, or begins without: id, reason, and
            words.
        clock: Seconds, monotonic.

    Attributes:
        sessions: Those that are open, by their id.
        passes: Runs the network.
    """

    def __init__(
        self,
        network: DraftNetwork,
        extents: RowExtents,
        options: NetworkOptions,
        on_drop: OnDrop,
        clock: Callable[[], float],
    ) -> None:
        self.sessions: dict[bytes, NetworkSession] = {}
        self.passes = NetworkPasses(network, extents, on_drop, clock)
        self._network, self._extents, self._options = network, extents, options
        self._clock, self._pace, self._load = clock, Pace(), RecentLoad()
        self._shared_calibration = Calibration()
        self._shared_rates = AcceptanceRates()

    def open(
        self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling, source: RowSource
    ) -> NetworkSession:
        """As `Drafter.open`; the session's true rows will come from `source`."""
        drawing = "greedy"
        if not sampling.is_greedy:
            drawing = "coupled" if self._options.is_coupled else "uncoupled"
        text = NgramText(token_ids, self._shared_rates) if self._options.has_text else None
        rests = self._rests(self._load.note(len(self.sessions) + 1, self._clock()))
        calibration = Calibration(self._shared_calibration)
        self.sessions[session_id] = session = NetworkSession(
            session_id=session_id,
            token_ids=list(token_ids),
            sampling=sampling,
            is_coupled=self._options.is_coupled,
            sources=Sources(drawing, calibration, text, self._options.shape),
            rows=DraftRows(self._network, self._extents, source),
            watch=NetworkWatch(),
        )
        if rests:
            self.passes.drop(session, DropReason.RESTING, "from the beginning")
        return session

    @property
    def rests(self) -> bool:
        """True where the network is not asked now."""
        return self._rests(len(self.sessions))

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        sessions = [self.sessions[session_id] for session_id in session_ids]
        spent = 0.0
        if self._asks(sessions, budgets):
            spent = self._catch_up(sessions, budgets)
        else:
            self._rest(sessions)
        for session, budget in zip(sessions, budgets, strict=True):
            guesses = session.rows.root_guesses if session.rows is not None else None
            session.tree = Growth(session.token_ids[-1], guesses, session.sources, budget)
        with_network = [session for session in sessions if session.growth.has_network]
        spent = self._grow(with_network, spent)
        trees = [session.growth.finish(spent) for session in sessions]
        for session in sessions:
            session.cost = None
        for session in with_network:
            session.cost = _cost(session.growth, spent / len(with_network), len(sessions))
        return trees

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        session = self.sessions[session_id]
        session.token_ids.extend(token_ids)
        if session.tree is not None:
            outcome = learn(session.tree, accepted_indices, token_ids)
            if session.cost is not None:
                reason = session.watch.note(outcome.is_hit, outcome.accepted, session.cost)
                if reason is not None:
                    self.passes.drop(session, reason, "over the last rounds")
            session.tree = None
        if session.sources.text is not None:
            session.sources.text.extend(token_ids)
        if session.rows is not None:
            session.rows.root_guesses = None

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        session = self.sessions.pop(session_id, None)
        if session is not None and session.rows is not None:
            session.rows.release()

    def _rests(self, session_count: int) -> bool:
        return self._options.may_rest and not self._pace.asks(max(1, session_count))

    def _asks(self, sessions: Sequence[NetworkSession], budgets: Sequence[TreeBudget]) -> bool:
        """Takes the rounds that have just ended, and decides about those that begin."""
        if not self._options.may_rest or any(budget.is_full for budget in budgets):
            return True
        now, open_count = self._clock(), len(self.sessions)
        self._load.note(open_count, now)
        for session, budget in zip(sessions, budgets, strict=True):
            if (turn := session.turn) is not None:
                tokens, seconds = len(session.token_ids) - turn.token_count, now - turn.began
                met_prefill = budget.company.has_prefill
                self._pace.note(open_count, turn.asked, tokens, seconds, met_prefill)
        asks = self._pace.asks(open_count)
        with_network = sum(one.rows is not None for one in self.sessions.values())
        # Asking a few of many costs nearly as much as asking all, and says nothing of it: a trial
        # begins when sessions that began with the network have come.
        are_few = asks and 2 * with_network < open_count
        asks_now = asks and not (are_few and self._pace.tries(open_count))
        for session in sessions:
            turn = session.next_turn(asks_now, now)
            session.turn = None if are_few else turn
        return asks_now

    def _rest(self, sessions: Sequence[NetworkSession]) -> None:
        """Runs what is ready once it fills a pass, and asks nothing; no tree is to blame for it."""
        if sum(session.ready_rows for session in sessions) >= PASS_ROWS:
            self.passes.absorb(_that_fit(sessions), {})

    def _catch_up(self, sessions: Sequence[NetworkSession], budgets: Sequence[TreeBudget]) -> float:
        """Runs what is ready, the shortest shares first and as much as one pass may hold.

        A session that has more to run than fits is drafted without its network this time.

        Returns:
            Microseconds, prefill not counted.
        """
        pairs = sorted(zip(sessions, budgets, strict=True), key=lambda pair: pair[0].ready_rows)
        counts = _that_fit([session for session, _ in pairs])
        rankings = {
            session: session.ranking(self._options.shape.width(budget))
            for session, budget in pairs
            if counts.get(session) == session.ready_rows
        }
        is_prefill = any(count > FRESH_ROWS for count in counts.values())
        micros = self.passes.absorb(counts, rankings)
        return 0.0 if is_prefill else micros

    def _grow(self, sessions: Sequence[NetworkSession], spent: float) -> float:
        """Grows trees level by level while that pays.

        Args:
            sessions: Those with a network to ask.
            spent: Microseconds so far.

        Returns:
            Microseconds in all.
        """
        shape, asking = self._options.shape, list(sessions)
        while asking:
            rows = sum(shape.breadth(session.growth.budget) for session in asking)
            times = LevelTimes(spent, self.passes.level_micros(rows) / len(asking))
            planned = {session: session.growth.plan_level(times) for session in asking}
            planned = {session: nodes for session, nodes in planned.items() if nodes}
            widths = [shape.width(session.growth.budget) for session in planned]
            asking, micros = self.passes.expand(planned, widths)
            spent += micros
        return spent


def _that_fit(sessions: Sequence[NetworkSession]) -> dict[NetworkSession, int]:
    """How many ready rows of each session one pass may hold, in their order; none without any."""
    counts, left = {}, PASS_ROWS
    for session in sessions:
        if count := min(session.ready_rows, left):
            counts[session] = count
            left -= count
    return counts


def _cost(growth: Growth, network_micros: float, session_count: int) -> RoundCost:
    """What a finished tree costs, as far as the network is to blame."""
    table, company = growth.budget.cost_table, growth.budget.company
    spoken = sum(growth.tree.nodes[node].origin.has_network for node in growth.kept)
    lone = table.micros_at(company.rows + 1)
    verify = table.micros_at(company.rows + 1 + spoken) - lone
    return RoundCost(network_micros, verify, lone / session_count)
