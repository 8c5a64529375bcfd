"""The verify worker's loop: one thread owns the socket, the engine and the target.

Takes no decisions: the engine decides, this file waits, runs and sends.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from outrider.idle_memory import IdleMemory
from outrider.protocol import messages as m
from outrider.protocol.channel import PeerId, VerifyChannel, batched
from outrider.telemetry.metrics import VerifyMetrics
from outrider.worker_health import DEAD_AFTER_S
from verify_service.counters import Counters
from verify_service.engine import Decided, Outgoing, VerifyEngine
from verify_service.sessions import VerifySession
from verify_service.step import StepAnswers, Target, TargetLost
from verify_service.step_planner import Step

IDLE_WAIT_MS = 20  # longest wait for a message while nothing runs
READING_WAIT_MS = 2  # the same while a grammar is read
HEARTBEAT_S = 0.2
CAUTION = 4.0  # a step may take so many times what was measured on a quiet machine
MAX_GRACE_S = 0.005  # see `_gather`
GRACE_SHARE = 0.05

logger = logging.getLogger(__name__)


class VerifyWorker:
    """Owns the channel from `run` to its end.

    Args:
        engine: The rules.
        target: Runs steps.
        channel: Connects draft workers; closed at the end of `run`.
        metrics: Updated after each turn.
        on_decided: Told of the rounds of each step.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        engine: VerifyEngine,
        target: Target,
        channel: VerifyChannel,
        metrics: VerifyMetrics,
        on_decided: Callable[[Sequence[Decided]], None] = lambda decided: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._target = target
        self._channel = channel
        self._metrics = metrics
        self._on_decided = on_decided
        self._clock = clock
        self._turns = 0
        self._turned_at = clock()
        metrics.turn_age.set_function(lambda: clock() - self._turned_at)
        self._memory = IdleMemory()
        self._ran = False
        self._answered: list[VerifySession] = []
        self._grace_until = 0.0
        self._reported = Counters()
        self._next_heartbeat = 0.0
        self._late_at = float("inf")  # when whatever runs now takes longer than it may
        self._stop = threading.Event()
        self._drain_until: float | None = None

    def stop(self, drain_s: float) -> None:
        """Asks the loop to end once its sessions have, or after `drain_s` seconds. Any thread."""
        self._drain_until = self._clock() + drain_s
        self._stop.set()

    @property
    def is_live(self) -> bool:
        """False where the loop hangs: a turn takes far longer than was expected; any thread."""
        return self._clock() <= self._late_at

    @property
    def takes_sessions(self) -> bool:
        """True where it gets on and is not asked to end; from any thread."""
        return self.is_live and not self._stop.is_set()

    def run(self) -> None:
        """Turns until stopped.

        Raises:
            TargetLost: A part of the target is gone.
        """
        is_draining = False
        try:
            while not self._is_over():
                if self._stop.is_set() and not is_draining:
                    is_draining = True
                    logger.info("draining; %d sessions are open", len(self._engine.sessions))
                    self._send(self._engine.drain("the verify worker is shutting down"))
                self.turn()
            if len(self._engine.sessions):
                logger.warning("%d sessions are left to others", len(self._engine.sessions))
        finally:
            self._channel.close()

    def turn(self) -> None:
        """One turn: take what has arrived, run one step, answer."""
        self._turns += 1
        self._turned_at = self._clock()
        self._late_at = self._turned_at + DEAD_AFTER_S
        # After a step there may be more to run; where there was nothing, only a message can help.
        wait_ms = READING_WAIT_MS if self._engine.is_reading else IDLE_WAIT_MS
        self._take(0 if self._ran else wait_ms)
        self._gather()
        # Leases are judged after the socket is empty: a long step must not silence its peers.
        self._engine.expire(self._clock())
        self._heartbeat()
        self._send(self._engine.settle())
        step = self._engine.plan()
        self._ran = step is not None
        if step is not None:
            self._run(step)
        self._report()
        self._memory.note(not len(self._engine.sessions), self._clock())

    def _take(self, timeout_ms: int) -> None:
        """Acts on what has arrived, waiting up to `timeout_ms` for the first message."""
        for arrival in self._channel.receive(timeout_ms):
            if arrival.message is None:
                logger.warning("bad frame from a peer: %s", arrival.problem)
                self._send(self._engine.handle_bad_frame(arrival.peer, arrival.problem))
            else:
                self._send(self._engine.handle(arrival.peer, arrival.message, self._clock()))

    def _gather(self) -> None:
        """Waits a moment for the sessions that were answered last, where others are ready.

        Without it two groups of sessions take turns for ever, each waiting for the other's step,
        and every step does half of the work it could for nearly the same time.
        """
        while self._answered and self._engine.waiting_count and self._clock() < self._grace_until:
            self._take(1)
            self._answered = [session for session in self._answered if session.tree is None]

    def _run(self, step: Step) -> None:
        self._announce(step.num_rows)
        started = self._clock()
        try:
            answers = self._target.run(step.segments)
        except TargetLost:
            raise
        except Exception as error:
            logger.exception("a step of %d sessions failed", len(step.sessions))
            self._run_apart(step, f"the target failed on this session ({type(error).__name__})")
            return
        self._finish(step, answers, started)

    def _run_apart(self, step: Step, problem: str) -> None:
        """After a failed step: whoever breaks alone ends alone."""
        if len(step.sessions) == 1:
            self._send(self._engine.abandon(step, problem))
            return
        for session, segment in zip(step.sessions, step.segments, strict=True):
            self._run(Step([session], [segment]))

    def _finish(self, step: Step, answers: StepAnswers, started: float) -> None:
        finished = self._engine.finish(step, answers, started, self._clock)
        self._metrics.step_seconds.observe(self._clock() - started)
        self._metrics.step_rows.observe(step.num_rows)
        # Sent first: the draft workers build their next trees while rows are moved here.
        self._send(finished.outgoing)
        self._target.move_rows(finished.move_sources, finished.move_destinations)
        self._on_decided(finished.decided)
        self._answered = [
            one.session for one in finished.decided if one.verdict.finish_reason is None
        ]
        ended = self._clock()
        self._grace_until = ended + min(MAX_GRACE_S, GRACE_SHARE * (ended - started))

    def _send(self, outgoing: Sequence[Outgoing]) -> None:
        by_peer: defaultdict[PeerId, list[m.ToDraft]] = defaultdict(list)
        for peer, message in outgoing:
            by_peer[peer].append(message)
        for peer, messages in by_peer.items():
            for batch in batched(messages):
                if not self._channel.send(peer, *batch):
                    # It is gone or does not read: its lease will run out and free its sessions.
                    logger.warning("%d messages could not be sent; the peer is gone", len(batch))

    def _announce(self, num_rows: int) -> None:
        """Before a long step: says how long it may take, so that nobody takes it for the end."""
        expected_ms = self._engine.identity.cost_table.micros_at(num_rows) / 1000
        self._late_at = self._clock() + DEAD_AFTER_S + CAUTION * expected_ms / 1000
        if expected_ms >= HEARTBEAT_S * 1000:
            self._beat(round(CAUTION * expected_ms))

    def _heartbeat(self) -> None:
        if self._clock() >= self._next_heartbeat:
            self._beat()

    def _beat(self, busy_ms: int = 0) -> None:
        self._next_heartbeat = self._clock() + HEARTBEAT_S
        beat = m.Heartbeat(self._engine.identity.boot_id, self._turns, busy_ms)
        for peer in self._engine.peers.welcome_peers():
            self._channel.send(peer, beat)  # to a peer that is gone, until its lease runs out

    def _report(self) -> None:
        engine, metrics = self._engine, self._metrics
        metrics.kv_blocks_in_use.set(engine.blocks.in_use)
        metrics.sessions.set(len(engine.sessions))
        metrics.waiting_sessions.set(engine.waiting_count)
        for name, count in engine.counters.changes_since(self._reported).items():
            if count:
                getattr(metrics, name).inc(count)

    def _is_over(self) -> bool:
        if self._drain_until is None:
            return False
        return not len(self._engine.sessions) or self._clock() >= self._drain_until
