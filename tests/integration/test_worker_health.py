"""The health port of a worker: what it says while a worker loads, serves, hangs and drains."""

from collections.abc import Iterator
from contextlib import closing
from threading import Event

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

    def watch(self, service: str) -> Iterator[str]:
        request = health_pb2.HealthCheckRequest(service=service)
        for answer in self._stub.Watch(request, timeout=PATIENCE_S):
            yield Status.Name(answer.status)


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


def test_watchers_see_a_worker_become_ready_hang_and_recover(
    health: WorkerHealth, probe: Probe
) -> None:
    live, ready = probe.watch("live"), probe.watch("ready")
    assert (next(live), next(ready)) == ("SERVING", "NOT_SERVING")
    worker = Worker()
    health.follow(lambda: worker.is_live, lambda: worker.is_live and worker.is_ready)
    assert next(ready) == "SERVING"
    worker.is_live = False
    assert (next(live), next(ready)) == ("NOT_SERVING", "NOT_SERVING")
    assert probe.all() == ["NOT_SERVING"] * 3
    worker.is_live = True
    assert (next(live), next(ready)) == ("SERVING", "SERVING")


def test_a_worker_that_drains_is_not_ready_at_once_and_for_ever(
    health: WorkerHealth, probe: Probe
) -> None:
    ready = probe.watch("ready")
    assert next(ready) == "NOT_SERVING"
    health.follow(lambda: True, lambda: True)
    assert next(ready) == "SERVING"
    health.drain()
    assert probe.check("ready") == "NOT_SERVING", "without waiting for the next look"
    health.drain()
    assert next(ready) == "NOT_SERVING"
    assert probe.check("live") == "SERVING"


def test_probes_are_answered_however_many_watch(probe: Probe) -> None:
    watchers = [probe.watch("live") for _ in range(20)]
    assert [next(one) for one in watchers] == ["SERVING"] * 20
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
