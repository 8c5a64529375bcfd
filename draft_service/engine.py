"""The draft worker's rules: streams and messages in, messages and events out.

Pure: no sockets, no clock (times are arguments, in seconds). The worker's loop is

    engine.fleet.follow(names)              verify workers join and leave
    engine.add / read / cancel              a stream comes, is read, or goes
    for arrival: engine.handle(...)         features reach the drafter; verdicts become events,
                                            refusals failures
    engine.tick(now)                        greetings, heartbeats, streams that lost their worker
    for method, batch in engine.ready():    streams that may propose
        trees = drafter.draft(...)
        engine.propose(batch, trees, ...)
    for drafter: drafter.prepare()          what need not be done before trees are sent

What is to be sent or told is collected in `outbox` and `events`; the worker empties them each turn.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draft_service.company import seen_in
from draft_service.drafters.drafter import Drafter, TreeBudget
from draft_service.drafting import Drafting, Event, Failed, round_done
from draft_service.fleet import Outbox, VerifyFleet
from draft_service.stream_features import StreamFeatures
from outrider.protocol import messages as m
from outrider.protocol.affinity import PREFIX_TOKENS, affinity_key
from outrider.protocol.errors import (
    InternalFailure,
    InvalidField,
    NoCapacity,
    OutriderError,
    WorkerUnavailable,
)
from outrider.protocol.features import FeatureLayout
from outrider.protocol.session import DraftState, tokens_left
from outrider.protocol.token_tree import TokenTree

MAX_RESYNCS = 3
FREE_ROWS = m.CostTable((1, 2), (10**6, 10**6 + 1))  # microseconds
MAX_UNREAD_ROUNDS = 16  # a stream that nobody reads rests; the others have its share of the steps
RESEND_S = 10.0  # a verdict may have been lost with a full queue; the ledger answers repeats


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Largest tree of any stream; a request may ask for less.

    Args:
        max_nodes: Nodes, the root included.
        max_depth: Drafted tokens on one path.
        parallel_degree: Children per node.
        are_full: True: trees have as many nodes as they may, whatever rows cost.
    """

    max_nodes: int
    max_depth: int
    parallel_degree: int
    are_full: bool = False


class DraftEngine:
    """All streams of one draft worker.

    Args:
        hello: Greets verify workers.
        verify_timeout_s: Silence after which a verify worker counts as lost.
        drafters: Draft methods by name.
        limits: Largest tree of any stream.
        failover_timeout_s: How long a stream may wait for a verify worker before it fails.
        layout: Features that the loaded heads read; None where no head is loaded.
    """

    def __init__(
        self,
        hello: m.Hello,
        verify_timeout_s: float,
        drafters: Mapping[str, Drafter],
        limits: TreeLimits,
        failover_timeout_s: float,
        layout: FeatureLayout | None = None,
    ) -> None:
        self.outbox: Outbox = []
        self.events: list[Event] = []
        self.stale_messages = self.lost_verify_workers = self.moved_sessions = 0
        self.fleet = VerifyFleet(hello, verify_timeout_s, self.outbox, layout)
        self._drafters = drafters
        self._limits = limits
        self._failover_timeout_s = failover_timeout_s
        self._features = StreamFeatures(drafters, layout)
        self._draftings: dict[bytes, Drafting] = {}

    @property
    def session_count(self) -> int:
        """Streams that are open."""
        return len(self._draftings)

    # ---- streams

    def add(self, drafting: Drafting) -> None:
        """Takes a stream; one that cannot be placed fails at once."""
        link = self._choose_link(drafting)
        if link is None:
            self._tell_failure(drafting, WorkerUnavailable(self.fleet.problem()))
            return
        self._draftings[drafting.session_id] = drafting
        session = drafting.session
        self._drafters[drafting.method].open(
            session.session_id, session.token_ids, session.sampling
        )
        drafting.link = link
        self.outbox.append((link, session.open(self._features.expect(drafting))))

    def cancel(self, session_id: bytes) -> None:
        """Forgets a stream and frees it on its verify worker; unknown ones are ignored."""
        drafting = self._draftings.get(session_id)
        if drafting is not None:
            self._close(drafting)

    def read(self, session_id: bytes, rounds: int) -> None:
        """So many rounds more of a stream were read; unknown ones are ignored."""
        drafting = self._draftings.get(session_id)
        if drafting is not None:
            drafting.unread_rounds -= rounds

    # ---- messages

    def handle(self, link: int, message: m.Message, now: float) -> None:
        """Takes one message of one verify worker."""
        if self.fleet.handle(link, message, now):
            self._evict(link, now)
        match message:
            case m.FeatureRows():
                self._take_features(link, message)
            case m.Verdict():
                self._take(link, message, now)
            case m.Fault() if message.session_id:
                self._refused(link, message, now)

    def cut(self, link: int, now: float) -> None:
        """The connection to a verify worker broke: nobody waits for its silence."""
        self.lost_verify_workers += self.fleet.links[link].is_ready
        if self.fleet.cut(link):
            self._evict(link, now)

    def tick(self, now: float) -> None:
        """Does what time asks for."""
        for link in self.fleet.tick(now):
            self.lost_verify_workers += 1
            self._evict(link, now)
        for drafting in list(self._draftings.values()):
            if drafting.link is None:
                self._place_again(drafting, now)
            elif drafting.session.tree is not None and now - drafting.sent_at > RESEND_S:
                drafting.sent_at = now
                self.outbox.append((drafting.link, drafting.session.repeat()))
        if self.fleet.is_parting:
            self.fleet.part({drafting.link for drafting in self._draftings.values()})

    # ---- rounds

    def ready(self) -> dict[str, list[Drafting]]:
        """Streams that may propose now, by draft method."""
        batches: defaultdict[str, list[Drafting]] = defaultdict(list)
        for drafting in self._draftings.values():
            is_ready = drafting.link is not None and drafting.session.state is DraftState.READY
            if is_ready and drafting.unread_rounds < MAX_UNREAD_ROUNDS:
                batches[drafting.method].append(drafting)
        return batches

    def budgets(self, batch: Sequence[Drafting]) -> list[TreeBudget]:
        """How large each stream's next tree may be."""
        return [self._budget(drafting) for drafting in batch]

    def propose(
        self, batch: Sequence[Drafting], trees: Sequence[TokenTree], started: float, now: float
    ) -> None:
        """Sends a batch's trees; drafting it began at `started`."""
        for drafting, tree in zip(batch, trees, strict=True):
            assert drafting.link is not None
            drafting.draft_started, drafting.sent_at = started, now
            drafting.draft_us = round((now - started) * 1e6)
            self.outbox.append((drafting.link, drafting.session.propose(tree)))

    # ---- inside

    def _budget(self, drafting: Drafting) -> TreeBudget:
        assert drafting.link is not None
        identity = self.fleet.links[drafting.link].identity
        assert identity is not None
        session, wish, target = drafting.session, drafting.speculation, identity.target
        left = tokens_left(
            len(session.token_ids), session.prompt_length, session.limits, target.context_limit
        )
        is_full = self._limits.are_full or drafting.wants_full_trees
        return TreeBudget(
            max_nodes=min(wish.max_nodes or self._limits.max_nodes, target.max_nodes),
            # A node at depth d yields token d + 1 of the round: deeper than left - 1 is in vain.
            max_depth=min(wish.depth or self._limits.max_depth, target.max_depth, max(0, left - 1)),
            parallel_degree=wish.parallel_degree or self._limits.parallel_degree,
            cost_table=FREE_ROWS if is_full else identity.cost_table,
            company=drafting.company,
            is_full=is_full,
        )

    def _take(self, link: int, verdict: m.Verdict, now: float) -> None:
        drafting = self._draftings.get(verdict.session_id)
        if drafting is None or drafting.link != link:
            self.stale_messages += 1
            return
        tree = drafting.session.tree
        index = len(drafting.session.token_ids) - drafting.session.prompt_length
        try:
            committed = drafting.session.take(verdict)
        except InvalidField as error:
            self._resync(drafting, str(error), now)
            return
        if committed is None or tree is None:
            self.stale_messages += 1
            return
        drafting.company = seen_in(verdict, len(tree))
        self._features.hand_over(drafting)
        self._drafters[drafting.method].commit(
            drafting.session_id, verdict.accepted_indices, committed.token_ids
        )
        self.events.append(round_done(drafting, verdict, committed, index, tree, now))
        drafting.unread_rounds += 1
        if committed.finish_reason is not None:
            self._forget(drafting)
        elif drafting.lacks_features:
            self._recover_features(drafting)

    def _take_features(self, link: int, rows: m.FeatureRows) -> None:
        drafting = self._draftings.get(rows.session_id)
        if drafting is None or drafting.link != link or not self._features.take(drafting, rows):
            self.stale_messages += 1

    def _recover_features(self, drafting: Drafting) -> None:
        """After a loss the same worker is asked to place the stream anew and send the rest."""
        assert drafting.link is not None
        first_row = self._features.lost(drafting, self.fleet.links[drafting.link].is_ready)
        if first_row is not None:
            self.outbox.append((drafting.link, drafting.session.reopen(first_row)))

    def _refused(self, link: int, fault: m.Fault, now: float) -> None:
        drafting = self._draftings.get(fault.session_id)
        is_current = drafting is not None and fault.epoch == drafting.session.epoch
        if drafting is None or drafting.link != link or not is_current:
            self.stale_messages += 1
        elif fault.code is m.FaultCode.SESSION_GONE and not self.fleet.links[link].is_ready:
            self._move(drafting, now)  # the worker drains
        elif fault.code is m.FaultCode.SESSION_GONE:
            self._resync(drafting, fault.message, now)
        else:
            self._forget(drafting)
            self._tell_failure(drafting, _error_of(fault))

    def _resync(self, drafting: Drafting, reason: str, now: float) -> None:
        """Places a stream anew because the two sides disagree about it."""
        drafting.resyncs += 1
        if drafting.resyncs > MAX_RESYNCS:
            self._close(drafting)
            text = f"the workers could not agree on this stream: {reason}"
            self._tell_failure(drafting, InternalFailure(text))
        else:
            drafting.link, drafting.homeless_since = None, now

    def _evict(self, link: int, now: float) -> None:
        for drafting in self._draftings.values():
            if drafting.link == link:
                self._move(drafting, now)

    def _move(self, drafting: Drafting, now: float) -> None:
        """Its worker is gone or goes; `tick` finds it another one."""
        drafting.link, drafting.homeless_since = None, now
        drafting.failovers += 1
        self.moved_sessions += 1

    def _place_again(self, drafting: Drafting, now: float) -> None:
        link = self._choose_link(drafting)
        if link is not None:
            drafting.link = link
            self.outbox.append((link, drafting.session.reopen(self._features.expect(drafting))))
        elif now - drafting.homeless_since > self._failover_timeout_s:
            self._forget(drafting)
            self._tell_failure(drafting, WorkerUnavailable(self.fleet.problem()))

    def _close(self, drafting: Drafting) -> None:
        if drafting.link is not None:
            self.outbox.append((drafting.link, drafting.session.close()))
        self._forget(drafting)

    def _forget(self, drafting: Drafting) -> None:
        self._drafters[drafting.method].close(drafting.session_id)
        del self._draftings[drafting.session_id]

    def _tell_failure(self, drafting: Drafting, error: OutriderError) -> None:
        self.events.append(Failed(drafting.session_id, error))

    def _choose_link(self, drafting: Drafting) -> int | None:
        session = drafting.session
        prompt = session.token_ids[: min(session.prompt_length, PREFIX_TOKENS)]
        counts = Counter(other.link for other in self._draftings.values())
        return self.fleet.choose(counts, affinity_key(prompt, session.cache_salt))


def _error_of(fault: m.Fault) -> OutriderError:
    """What a client is told of a refusal."""
    match fault.code:
        case m.FaultCode.RESOURCE_EXHAUSTED:
            return NoCapacity(fault.message)
        case m.FaultCode.INVALID_ARGUMENT:
            field, _, rule = fault.message.partition(": ")
            return InvalidField(field, rule)
        case _:
            return InternalFailure(f"{fault.code.name}: {fault.message}")
