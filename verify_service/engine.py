"""The verify worker's rules: messages in, steps out, answers in, verdicts out.

Pure: no sockets, no torch, no clock (times are arguments, in seconds). The worker's loop is

    for arrival: engine.handle(...)         -> messages to send
    engine.expire(now)                      -> silent peers lose their sessions
    engine.settle()                         -> grammars that have been read; messages to send
    step = engine.plan()                    -> what to run, or None
    answers = target.run(step.segments)
    engine.finish(step, answers, ...)       -> messages to send, rows to move before the next step

Features of the rows that a step committed are sent in front of its verdicts.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from outrider.protocol import messages as m
from outrider.protocol.channel import PeerId
from outrider.protocol.decoding import LOSSLESS, TopLogProbs
from outrider.protocol.token_tree import ROOT
from verify_service.acceptance import walk
from verify_service.commit import plan_commit
from verify_service.counters import Counters
from verify_service.features import feature_messages, unsent_rows
from verify_service.kv_blocks import KvBlocks
from verify_service.peers import Peers
from verify_service.session_table import GrammarSource, SessionTable, fault_of
from verify_service.sessions import VerifySession
from verify_service.step import (
    NonFiniteLogits,
    NoTokenAllowed,
    Segment,
    StepAnswers,
    TargetTokens,
)
from verify_service.step_planner import Step, StepPlanner

Outgoing = tuple[PeerId, m.ToDraft]


@dataclass(frozen=True, slots=True)
class Decided:
    """One session's round, for whoever traces it; times in seconds of the worker's clock."""

    session: VerifySession
    path: list[int]
    verdict: m.Verdict
    started: float
    ended: float


@dataclass(slots=True)
class Finished:
    """What a finished step asks of the worker: send the messages, and move the rows before the
    next step."""

    move_sources: list[int] = field(default_factory=list)
    move_destinations: list[int] = field(default_factory=list)
    outgoing: list[Outgoing] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)


class _Run(NamedTuple):
    """How a step was run: its start, seconds; the clock; rows, trees and their nodes."""

    started: float
    clock: Callable[[], float]
    num_rows: int
    num_trees: int
    num_nodes: int


class _Outcome(NamedTuple):
    """What a step means for one session.

    Args:
        answer: What its peer is told, if anything.
        feature_rows: Rows of its segment whose features are sent first.
    """

    answer: m.Verdict | m.Fault | None
    feature_rows: list[int]


class VerifyEngine:
    """All peers and sessions of one verify worker.

    Args:
        identity: What `Hello` is answered with.
        blocks: The KV pool's blocks.
        token_budget: Most rows of a step.
        grammars: Reads the grammars of requests; None: they are refused.
    """

    def __init__(
        self,
        identity: m.HelloAck,
        blocks: KvBlocks,
        token_budget: int,
        grammars: GrammarSource | None = None,
    ) -> None:
        self.identity = identity
        self.blocks = blocks
        self.counters = Counters()
        self.sessions = SessionTable(identity.target, blocks, self.counters, grammars)
        self.peers = Peers(identity)
        self._planner = StepPlanner(self.sessions, blocks, token_budget, self.counters)
        self._going_away: m.GoAway | None = None  # said to all, once the worker drains

    # ---- messages

    def handle(self, peer: PeerId, message: m.Message, now: float) -> list[Outgoing]:
        """Takes one message; the answers may be empty."""
        refusal = self.peers.hear(peer, message, now)
        answers = self._act(peer, message, now) if refusal is None else [refusal]
        return [(peer, answer) for answer in answers]

    def handle_bad_frame(self, peer: PeerId, problem: str) -> list[Outgoing]:
        """Counts unreadable bytes; a peer that keeps sending them loses its sessions."""
        self.counters.bad_frames += 1
        answer = self.peers.strike(peer, problem)
        if answer is None:
            self.sessions.drop_peer(peer)
            return []
        return [(peer, answer)]

    def expire(self, now: float) -> None:
        """Frees the sessions of peers that have been silent for a lease."""
        for peer in self.peers.expire(now):
            self.counters.expired_leases += 1
            self.sessions.drop_peer(peer)

    def drain(self, reason: str) -> list[Outgoing]:
        """Takes no new sessions from now on; the running ones go on."""
        self._going_away = m.GoAway(reason)
        return [(peer, self._going_away) for peer in self.peers.welcome_peers()]

    def audit(self) -> None:
        """Recounts the pool.

        Raises:
            AssertionError: A block leaked or has two owners.
        """
        self.blocks.audit(session.table for session in self.sessions)

    def _act(self, peer: PeerId, message: m.Message, now: float) -> list[m.ToDraft]:
        match message:
            case m.Hello():
                # Whoever greets begins anew: what it had placed here before has gone elsewhere.
                self.sessions.drop_peer(peer)
                return [self.identity, *([self._going_away] if self._going_away else [])]
            case m.OpenSession():
                refusal = self._open(peer, message)
                return [] if refusal is None else [refusal]
            case m.ProposeTree():
                return self.sessions.propose(peer, message, now)
            case m.CloseSession():
                self.sessions.close(peer, message)
        return []

    def _open(self, peer: PeerId, message: m.OpenSession) -> m.Fault | None:
        if self._going_away is not None and message.session_id not in self.sessions:
            # It was on its way while the others were told; SESSION_GONE has it placed elsewhere.
            return fault_of(message, m.FaultCode.SESSION_GONE, self._going_away.reason)
        return self.sessions.open(peer, message, self.peers.feature_layers(peer))

    # ---- steps

    @property
    def waiting_count(self) -> int:
        """Sessions with a pending tree."""
        return len(self._planner.waiting)

    @property
    def is_reading(self) -> bool:
        """True where a session waits for its grammar to be read."""
        return self.sessions.is_reading

    def settle(self) -> list[Outgoing]:
        """Lets sessions run whose grammar has been read; answers those whose grammar is none."""
        return list(self.sessions.settle())

    def plan(self) -> Step | None:
        """The next step, its rows reserved; None where nothing can run."""
        return self._planner.plan()

    def finish(
        self,
        step: Step,
        answers: StepAnswers,
        started: float,
        clock: Callable[[], float],
    ) -> Finished:
        """Commits a step that has run; sessions that ended are gone afterwards.

        Args:
            step: Of `plan`.
            answers: Of the target.
            started: When the step's forward pass began, seconds.
            clock: Asked when a session's tokens have been drawn, since drawing takes time too.
        """
        finished = Finished()
        sizes = step.tree_sizes
        run = _Run(started, clock, step.num_rows, len(sizes), sum(sizes))
        outcomes = [
            self._advance(session, segment, tokens, run, finished)
            for session, segment, tokens in zip(
                step.sessions, step.segments, answers.tokens, strict=True
            )
        ]
        wanted = [outcome.feature_rows for outcome in outcomes]
        # One copy for all sessions, and none where nobody wants features.
        blocks = answers.features_of(wanted) if any(wanted) else [None] * len(wanted)
        for session, outcome, block in zip(step.sessions, outcomes, blocks, strict=True):
            features = feature_messages(session, block) if block else []
            finished.outgoing += [(session.peer, message) for message in features]
            if outcome.answer is not None:
                session.last_features = features
                finished.outgoing.append((session.peer, outcome.answer))
        return finished

    def abandon(self, step: Step, problem: str) -> list[Outgoing]:
        """Ends the sessions of a step that could not be run."""
        for session in step.sessions:
            self.sessions.forget(session, is_sound=False)
        return [
            (session.peer, fault_of(session.opened, m.FaultCode.INTERNAL, problem))
            for session in step.sessions
        ]

    def _advance(
        self,
        session: VerifySession,
        segment: Segment,
        tokens: TargetTokens | None,
        run: _Run,
        finished: Finished,
    ) -> _Outcome:
        """Carries out what a step means for one session; one that has ended is gone afterwards."""
        if segment.tree_start is None or tokens is None:
            session.cached_rows += len(segment.token_ids)
            self._name_blocks(session)
            return _Outcome(None, unsent_rows(session, segment))
        session.cached_rows += segment.tree_start
        try:
            decided = self._decide(session, tokens, run)
        except NonFiniteLogits as error:
            self.sessions.forget(session, is_sound=False)
            fault = fault_of(session.opened, m.FaultCode.NON_FINITE_LOGITS, str(error))
            return _Outcome(fault, [])
        except NoTokenAllowed as error:
            self.sessions.forget(session)
            return _Outcome(fault_of(session.opened, m.FaultCode.INVALID_ARGUMENT, str(error)), [])
        finished.decided.append(decided)
        self._name_blocks(session)
        if decided.verdict.finish_reason is not None:
            self.sessions.forget(session)
            return _Outcome(decided.verdict, [])
        _compact(session, decided.path, finished)
        return _Outcome(decided.verdict, unsent_rows(session, segment, decided.path))

    def _name_blocks(self, session: VerifySession) -> None:
        """Lets others begin with the rows that are committed now."""
        names = session.names.of(session.token_ids, session.cached_rows)
        for block, name in zip(session.table.blocks, names, strict=False):
            self.blocks.name(block, name)

    def _decide(self, session: VerifySession, tokens: TargetTokens, run: _Run) -> Decided:
        """Walks the tree, plans the commit and carries it out on the session's own state."""
        tree = session.tree
        assert tree is not None
        threshold = session.opened.validation_threshold

        def likely_at(node: int, token_ids: Collection[int]) -> int | None:
            return tokens.likely_at(node, token_ids, threshold)

        is_lossless = threshold == LOSSLESS
        path, bonus_token = walk(tree, tokens.token_at, None if is_lossless else likely_at)
        token_ids = [tree.token_ids[node] for node in path] + [bonus_token]
        context_limit = self.identity.target.context_limit
        stop_token_ids = session.ending_ids(self.identity.target.eos_token_ids)
        plan = plan_commit(token_ids, session.tokens_left(context_limit), stop_token_ids)
        nodes = [ROOT, *path][: plan.kept_count]  # each kept token was drawn behind one of these
        log_probs, top_log_probs = _log_probs(session.opened, nodes, token_ids, tokens)
        ended = run.clock()
        verdict = m.Verdict(
            session_id=session.opened.session_id,
            epoch=session.ledger.epoch,
            round=session.ledger.next_round,
            accepted_indices=tuple(session.kept_nodes[node] for node in path[: plan.kept_count]),
            bonus_token=bonus_token if plan.kept_count > len(path) else None,
            finish_reason=plan.finish_reason,
            log_probs=log_probs,
            top_log_probs=top_log_probs,
            queue_us=max(0, round((run.started - session.waiting_since) * 1e6)),
            verify_us=round((ended - run.started) * 1e6),
            batch_rows=run.num_rows,
            batch_trees=run.num_trees,
            batch_nodes=run.num_nodes,
        )
        session.extend(token_ids[: plan.kept_count])
        session.ledger.decide(verdict)
        session.tree = None
        return Decided(session, path, verdict, run.started, ended)


def _log_probs(
    opened: m.OpenSession, nodes: list[int], token_ids: list[int], tokens: TargetTokens
) -> tuple[tuple[float, ...], tuple[TopLogProbs, ...]]:
    """Log-probability of each kept token, read at the node it follows, and what else was likely
    there; empty unless wanted."""
    own: tuple[float, ...] = ()
    top: tuple[TopLogProbs, ...] = ()
    if opened.wants_log_probs:
        pairs = zip(nodes, token_ids, strict=False)
        own = tuple(tokens.log_prob_at(node, token) for node, token in pairs)
    if opened.top_log_prob_count:
        top = tuple(tokens.top_at(node, opened.top_log_prob_count) for node in nodes)
    return own, top


def _compact(session: VerifySession, path: list[int], finished: Finished) -> None:
    """Keeps the root's row and moves the rows of the accepted path behind it."""
    root_row = session.cached_rows
    for place, node in enumerate(path, start=1):
        if node != place:
            finished.move_sources.append(session.table.slot(root_row + node))
            finished.move_destinations.append(session.table.slot(root_row + place))
    session.cached_rows = root_row + 1 + len(path)
