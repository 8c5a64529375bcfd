"""The health port of a worker: what it says while a worker loads, serves, hangs and drains."""

import time
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Semaphore

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from outrider.worker_health import WorkerHealth

HOST = "127.0.0.1"
PATIENCE_S = 5.0
SERVICES = ("", "live", "ready")
Status = health_pb2.HealthCheckResponse.ServingStatus


class Probe:
    """Asks as an orchestrator does."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._stub = health_pb2_grpc.HealthStub(channel)

    def check(self, service: str) -> str:
        request = health_pb2.HealthCheckRequest(service=service)
        return str(Status.Name(self._stub.Check(request, timeout=PATIENCE_S).status))

    def all(self) -> list[str]:
        return [self.check(service) for service in SERVICES]

    def watch(self, service: str) -> Iterator[object]:
        request = health_pb2.HealthCheckRequest(service=service)
        return iter(self._stub.Watch(request, timeout=PATIENCE_S))

    def until(self, service: str, status: str) -> None:
        """Asks again and again until that is the answer."""
        end = time.monotonic() + PATIENCE_S
        while (seen := self.check(service)) != status:
            assert time.monotonic() < end, f"{service} stays {seen}"


class Worker:
    """What a worker says of itself."""

    def __init__(self) -> None:
        self.is_live = self.is_ready = True


@pytest.fixture
def health() -> Iterator[WorkerHealth]:
    with closing(WorkerHealth()) as health:
        yield health


@pytest.fixture
def probe(health: WorkerHealth) -> Iterator[Probe]:
    with grpc.insecure_channel(f"{HOST}:{health.listen(HOST, 0)}") as channel:
        yield Probe(channel)


def test_a_worker_that_loads_its_model_is_live_and_not_ready(probe: Probe) -> None:
    assert probe.all() == ["SERVING", "SERVING", "NOT_SERVING"]


def test_probes_see_a_worker_become_ready_hang_and_recover(
    health: WorkerHealth, probe: Probe
) -> None:
    worker = Worker()
    health.follow(lambda: worker.is_live, lambda: worker.is_live and worker.is_ready)
    probe.until("ready", "SERVING")
    worker.is_live = False
    probe.until("live", "NOT_SERVING")
    assert probe.all() == ["NOT_SERVING"] * 3
    worker.is_live = True
    probe.until("ready", "SERVING")
    assert probe.all() == ["SERVING"] * 3


def test_a_worker_that_drains_is_not_ready_at_once_and_for_ever(
    health: WorkerHealth, probe: Probe
) -> None:
    looks = Semaphore(0)

    def is_live() -> bool:
        looks.release()
        return True

    health.follow(is_live, lambda: True)
    probe.until("ready", "SERVING")
    health.drain()
    assert probe.check("ready") == "NOT_SERVING", "without waiting for the next look"
    for _ in range(3):
        assert looks.acquire(timeout=PATIENCE_S)
    assert (probe.check("ready"), probe.check("live")) == ("NOT_SERVING", "SERVING")


def test_nobody_can_watch_and_so_hold_up_the_probes(probe: Probe) -> None:
    watchers = [probe.watch("live") for _ in range(20)]
    for one in watchers:
        with pytest.raises(grpc.RpcError) as caught:
            next(one)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert probe.check("live") == "SERVING"


def test_an_unknown_service_is_not_found(probe: Probe) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        probe.check("outrider.v1.DraftingService")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_there_is_nothing_else_on_the_port(health: WorkerHealth) -> None:
    port = health.listen(HOST, 0)
    with grpc.insecure_channel(f"{HOST}:{port}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/outrider.v1.DraftingService/GetWorker"
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with closing(WorkerHealth()) as other, pytest.raises(OSError, match="in use"):
        other.listen(HOST, port)


def test_a_worker_is_asked_by_another_thread_than_its_own(
    health: WorkerHealth, probe: Probe
) -> None:
    """So it answers while the worker's own thread is busy, as with a model that loads."""
    was_asked = Event()

    def is_live() -> bool:
        was_asked.set()
        return True

    health.follow(is_live, lambda: False)
    assert was_asked.wait(PATIENCE_S)
