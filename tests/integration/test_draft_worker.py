"""The draft worker's thread, as a health port sees it: while it turns, hangs and has ended."""

import errno
import threading
import time
from collections.abc import Callable

import pytest
import zmq

from draft_service.drafters.none import NoDrafter
from draft_service.engine import DraftEngine, TreeLimits
from draft_service.worker import DraftWorker
from outrider.protocol import messages as m
from outrider.protocol.zmq_channel import ZmqDraftChannel
from outrider.telemetry.metrics import DraftMetrics

PATIENCE_S = 5.0
LOOK_S = 0.01
BAD = "tcp://[fe80::1]:9"


class HangingDrafter(NoDrafter):
    """Stands still in each turn while its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.is_inside = threading.Event()

    def prepare(self) -> bool:
        if not self.gate.is_set():
            self.is_inside.set()
            self.gate.wait(PATIENCE_S)
        return False


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(LOOK_S)


def test_a_thread_that_hangs_is_first_passed_over_and_then_given_up() -> None:
    times = [0.0]
    drafter = HangingDrafter()
    engine = DraftEngine(m.Hello(b"d" * 16), 10.0, {"none": drafter}, TreeLimits(4, 4, 1), 30.0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    worker = DraftWorker(
        engine,
        {"none": drafter},
        context,
        lambda endpoint: ZmqDraftChannel(context, endpoint),
        DraftMetrics(),
        lambda events: None,
        clock=lambda: times[-1],
    )
    seen = [(worker.is_stuck, worker.is_live)]
    worker.start()
    try:
        seen.append((worker.is_stuck, worker.is_live))
        drafter.gate.clear()
        assert drafter.is_inside.wait(PATIENCE_S)
        for now in (2.0, 10.1):
            times.append(now)
            seen.append((worker.is_stuck, worker.is_live))
        drafter.gate.set()
        wait_for(lambda: worker.is_live)
    finally:
        drafter.gate.set()
        worker.stop()
        context.term()
    seen.append((worker.is_stuck, worker.is_live))
    before, turning, passed_over, given_up, after = seen
    assert (before, turning, after) == ((False, False), (False, True), (False, False))
    assert (passed_over, given_up) == ((True, True), (True, False))


def test_an_endpoint_that_cannot_be_connected_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = DraftEngine(m.Hello(b"d" * 16), 10.0, {"none": NoDrafter()}, TreeLimits(4, 4, 1), 30.0)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def open_channel(endpoint: str) -> ZmqDraftChannel:
        if endpoint == BAD:
            raise zmq.ZMQError(errno.EINVAL)
        return ZmqDraftChannel(context, endpoint)

    worker = DraftWorker(engine, {}, context, open_channel, DraftMetrics(), lambda events: None)
    worker.follow([BAD, "tcp://127.0.0.1:9"])
    worker.start()
    try:
        wait_for(lambda: len(engine.fleet.links) == 2)
        worker.follow(["tcp://127.0.0.1:9"])
        wait_for(lambda: len(engine.fleet.links) == 1)
        assert worker.is_live
    finally:
        worker.stop()
        context.term()
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert errors == [f"no connection can be made to a verify worker at {BAD}: Invalid argument"]
