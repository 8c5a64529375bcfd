"""The draft worker's loop: one thread owns the sockets, the engine and the drafters.

Takes no decisions. The gRPC side talks to it through `submit`, and hears of each turn's events in
one call of `on_events`, made in this thread.
"""

import logging
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import zmq

from draft_service.drafters.drafter import Drafter
from draft_service.drafting import Drafting, Event, RoundDone
from draft_service.engine import DraftEngine
from draft_service.verify_channels import OpenChannel, VerifyChannels
from outrider.idle_memory import IdleMemory
from outrider.protocol.messages import TargetDescription, ToVerify
from outrider.telemetry.metrics import DraftMetrics
from outrider.worker_health import DEAD_AFTER_S

IDLE_WAIT_MS = 50
STUCK_S = 1.5  # a turn that takes longer: its thread hangs

logger = logging.getLogger(__name__)

Command = Callable[[DraftEngine], None]


class DraftWorker:
    """Runs in its own thread between `start` and `stop`.

    Args:
        engine: The rules.
        drafters: Draft methods by name, those of the engine.
        context: ZeroMQ context; not closed here.
        open_channel: Connects to the endpoint of a verify worker; called and closed by the thread.
        metrics: Updated after each turn.
        on_events: Told of each turn's events, in the worker's thread; must not block.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        engine: DraftEngine,
        drafters: Mapping[str, Drafter],
        context: "zmq.Context[zmq.Socket[bytes]]",
        open_channel: OpenChannel,
        metrics: DraftMetrics,
        on_events: Callable[[list[Event]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._drafters = drafters
        self._metrics = metrics
        self._on_events = on_events
        self._clock = clock
        self._commands: deque[Command] = deque()
        self._wake_lock = threading.Lock()
        self._wake_sender, self._wake_receiver = _wake_pair(context)
        self._channels = VerifyChannels(open_channel, self._wake_receiver)
        self._stopping = threading.Event()
        self._reported: Counter[str] = Counter()
        self._turned_at = clock()
        metrics.turn_age.set_function(lambda: clock() - self._turned_at)
        self._memory = IdleMemory()
        self._has_more = False  # to prepare, while nothing arrives
        self._thread = threading.Thread(target=self._run, name="draft-worker", daemon=True)
        self.target: TargetDescription | None = None
        self.problem = "the draft worker is starting"
        self.session_count = 0
        self.ready_count = 0  # of verify workers

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._stopping.set()
        self._wake()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        """False where the thread has ended, for whatever reason."""
        return self._thread.is_alive()

    @property
    def is_stuck(self) -> bool:
        """True where the thread has not got on for too long; from any thread."""
        return self._clock() - self._turned_at > STUCK_S

    @property
    def is_live(self) -> bool:
        """False where the thread has ended, or hangs for so long that it will not come back."""
        return self.is_alive and self._clock() - self._turned_at <= DEAD_AFTER_S

    @property
    def takes_sessions(self) -> bool:
        """True where it gets on, and so does a verify worker; from any thread."""
        return self.is_alive and not self.is_stuck and self.ready_count > 0

    def follow(self, endpoints: Sequence[str]) -> None:
        """From now on these are the verify workers to be used; from any thread."""
        self._submit(lambda engine: engine.fleet.follow(endpoints))

    def add(self, drafting: Drafting) -> None:
        """Hands a stream over; from any thread."""
        self._submit(lambda engine: engine.add(drafting))

    def read(self, session_id: bytes, rounds: int) -> None:
        """So many rounds more of a stream were read; from any thread."""
        self._submit(lambda engine: engine.read(session_id, rounds))

    def cancel(self, session_id: bytes) -> None:
        """Forgets a stream; from any thread."""
        self._submit(lambda engine: engine.cancel(session_id))

    def _submit(self, command: Command) -> None:
        self._commands.append(command)
        self._wake()

    def _wake(self) -> None:
        # Where the socket takes no more, enough wake-ups are waiting.
        with self._wake_lock, suppress(zmq.Again):
            self._wake_sender.send(b"", flags=zmq.DONTWAIT)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._channels.poll(0 if self._has_more else IDLE_WAIT_MS)
                self._drain_wakes()
                self._turn()
        finally:
            self._channels.close_all()
            self._wake_receiver.close()
            self._wake_sender.close()

    def _turn(self) -> None:
        self._turned_at = self._clock()
        engine = self._engine
        while self._commands:
            self._commands.popleft()(engine)
        self._channels.open(engine.fleet.links)
        for number, channel in self._channels:
            for arrival in channel.receive():
                if arrival.message is not None:
                    engine.handle(number, arrival.message, self._clock())
            if channel.was_cut():
                logger.warning("the connection to verify worker %d broke", number)
                engine.cut(number, self._clock())
        engine.tick(self._clock())
        self._draft()
        self._flush()
        self._report()
        # Behind the trees that were just sent: the verify worker is busy with them.
        self._has_more = any([drafter.prepare() for drafter in self._drafters.values()])
        self._memory.note(not self.session_count, self._clock())

    def _draft(self) -> None:
        for method, batch in self._engine.ready().items():
            started = self._clock()
            session_ids = [drafting.session_id for drafting in batch]
            trees = self._drafters[method].draft(session_ids, self._engine.budgets(batch))
            self._engine.propose(batch, trees, started, self._clock())

    def _flush(self) -> None:
        outgoing: defaultdict[int, list[ToVerify]] = defaultdict(list)
        for number, message in self._engine.outbox:
            outgoing[number].append(message)
        self._engine.outbox.clear()
        for number, messages in outgoing.items():
            self._channels.send(number, messages)
        self._channels.close(self._engine.fleet.links)
        if self._engine.events:
            events = list(self._engine.events)
            self._engine.events.clear()
            self._on_events(events)
            for event in events:
                if isinstance(event, RoundDone):
                    self._count(event)

    def _drain_wakes(self) -> None:
        with suppress(zmq.Again):
            while True:
                self._wake_receiver.recv(flags=zmq.DONTWAIT)

    def _count(self, done: RoundDone) -> None:
        metrics, times = self._metrics, done.times
        metrics.rounds.inc()
        metrics.drafted_tokens.inc(done.drafted_count)
        metrics.accepted_tokens.inc(done.reach.accepted)
        metrics.committed_tokens.inc(len(done.token_ids))
        metrics.tokens_per_round.observe(len(done.token_ids))
        for depth in range(1, done.reach.offered + 1):
            metrics.offered_rounds_per_depth.labels(str(depth)).inc()
        for depth in range(1, done.reach.accepted + 1):
            metrics.accepted_tokens_per_depth.labels(str(depth)).inc()
        for part in ("draft", "wire", "queue", "verify"):
            metrics.round_seconds.labels(part).inc(getattr(times, f"{part}_us") / 1e6)

    def _report(self) -> None:
        self.target, self.session_count = self._engine.fleet.target, self._engine.session_count
        self.problem = self._engine.fleet.problem()
        self._metrics.sessions.set(self.session_count)
        self.ready_count = self._engine.fleet.ready_count
        self._metrics.verify_workers.set(self.ready_count)
        self._metrics.known_verify_workers.set(self._engine.fleet.listed_count)
        for name in ("stale_messages", "lost_verify_workers", "moved_sessions"):
            count = getattr(self._engine, name)
            getattr(self._metrics, name).inc(count - self._reported[name])
            self._reported[name] = count


def _wake_pair(
    context: "zmq.Context[zmq.Socket[bytes]]",
) -> tuple["zmq.Socket[bytes]", "zmq.Socket[bytes]"]:
    """Two ends of a wire inside the process, to end a poll."""
    receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    receiver.bind("inproc://draft-worker-wake")
    sender.connect("inproc://draft-worker-wake")
    return sender, receiver
