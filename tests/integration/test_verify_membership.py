"""Verify workers behind a name that join, leave, come back and die under the streams of one draft
worker: every stream has the tokens that the target alone would emit."""

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import zmq
from zmq.auth import create_certificates

from draft_service.drafters.ngram import NgramDrafter
from draft_service.drafting import Drafting
from draft_service.engine import DraftEngine, TreeLimits
from draft_service.streams import Streams
from draft_service.verify_discovery import keep_finding
from draft_service.worker import DraftWorker
from outrider.discovery import Discovery, DnsName
from outrider.protocol import messages as m
from outrider.protocol.zmq_channel import (
    CurveKeys,
    ZmqDraftChannel,
    ZmqVerifyChannel,
    load_curve_keys,
)
from outrider.telemetry.metrics import DraftMetrics, VerifyMetrics
from tests.fakes.conversation import identity, plain_tokens, stream
from tests.fakes.dns import FakeDns
from tests.fakes.table_target import TableTarget, markov_logits
from verify_service.engine import VerifyEngine
from verify_service.kv_blocks import KvBlocks
from verify_service.worker import VerifyWorker

pytestmark = pytest.mark.asyncio

A, B = "127.0.0.1", "127.0.0.2"  # both this machine
PATIENCE_S = 10.0
LOOK_S = 0.01
LOGITS = markov_logits(8, 3)
TOKENS = 30


class GatedTarget(TableTarget):
    """A table that runs steps while its gate is open."""

    def __init__(self, slot_count: int) -> None:
        super().__init__(slot_count, LOGITS)
        self.gate = threading.Event()
        self.gate.set()

    def run(self, segments):
        self.gate.wait(PATIENCE_S)
        return super().run(segments)


class VerifyHost:
    """A verify worker in a thread of its own."""

    def __init__(self, endpoint: str, keys: CurveKeys) -> None:
        self.target = GatedTarget(256 * 4)
        self._endpoint, self._keys = endpoint, keys
        self._bound = threading.Event()
        self._worker: VerifyWorker | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._bound.wait(PATIENCE_S)

    def _run(self) -> None:
        engine = VerifyEngine(identity(boot=os.urandom(16)), KvBlocks(256, 4), token_budget=64)
        channel = ZmqVerifyChannel(self._endpoint, self._keys)
        self._worker = VerifyWorker(engine, self.target, channel, VerifyMetrics())
        self._bound.set()
        self._worker.run()

    def stop(self) -> None:
        """Ends it, whatever runs there."""
        assert self._worker is not None
        self._worker.stop(0.0)
        self.target.gate.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


class Cluster:
    """Two hosts, one name, one draft worker."""

    def __init__(self, worker: DraftWorker, streams: Streams, dns: FakeDns) -> None:
        self.worker, self.dns = worker, dns
        self._streams = streams

    async def point_at(self, *addresses: str) -> None:
        """Moves the name, and waits until the draft worker has as many verify workers."""
        self.dns.addresses = {"verify": addresses}
        await until(lambda: self.worker.ready_count == len(addresses))

    async def links(self, count: int) -> None:
        """Waits until the draft worker has so many links, those included that it parts with."""
        await until(lambda: len(self.worker._engine.fleet.links) == count)

    async def run(self, number: int) -> tuple[list[int], Drafting]:
        """One stream to its end."""
        drafting = stream(f"s{number}", prompt(number), max_new_tokens=TOKENS, ignore_eos=True)
        token_ids: list[int] = []
        async for done in self._streams.run(self.worker, drafting):
            token_ids += done.token_ids
        return token_ids, drafting


def prompt(number: int) -> list[int]:
    return [number % 8, (number // 8) % 8, 1]


def expected(number: int) -> list[int]:
    return plain_tokens(LOGITS, prompt(number), TOKENS, stops=())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110  other threads are waited for
            await asyncio.sleep(LOOK_S)


@pytest.fixture
def curve(tmp_path: Path) -> tuple[CurveKeys, CurveKeys]:
    """Of all verify workers, and of the draft worker."""
    for name in ("verify", "draft"):
        create_certificates(tmp_path, name)
        (tmp_path / f"{name}.key_secret").chmod(0o600)
    return (
        load_curve_keys(tmp_path / "verify.key_secret", tmp_path),
        load_curve_keys(tmp_path / "draft.key_secret", tmp_path / "verify.key"),
    )


@pytest.fixture
def port() -> int:
    with socket.create_server((A, 0)) as bound:
        return int(bound.getsockname()[1])


@pytest.fixture
def start(curve, port: int) -> Iterator[Callable[[str], VerifyHost]]:
    """Starts verify workers at addresses, and ends them."""
    with ExitStack() as stack:

        def start(address: str) -> VerifyHost:
            host = VerifyHost(f"tcp://{address}:{port}", curve[0])
            stack.callback(host.stop)
            return host

        yield start


@contextmanager
def draft_worker(keys: CurveKeys, streams: Streams) -> Iterator[DraftWorker]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    drafters = {"ngram": NgramDrafter()}
    engine = DraftEngine(m.Hello(b"d" * 16), 10.0, drafters, TreeLimits(16, 8, 4), 30.0)
    open_channel = partial(ZmqDraftChannel, context, keys=keys)
    worker = DraftWorker(engine, drafters, context, open_channel, DraftMetrics(), streams.deliver)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        context.term()


@asynccontextmanager
async def cluster(keys: CurveKeys, port: int) -> AsyncIterator[Cluster]:
    streams, dns = Streams(asyncio.get_running_loop()), FakeDns()
    discovery = Discovery([DnsName("verify.svc", port, "tcp://")], dns)
    with draft_worker(keys, streams) as worker:
        finding = asyncio.create_task(keep_finding(discovery, worker.follow, LOOK_S))
        try:
            yield Cluster(worker, streams, dns)
        finally:
            finding.cancel()
            with suppress(asyncio.CancelledError):
                await finding


async def test_workers_join_and_leave_under_exact_streams(curve, port, start) -> None:
    a, b = start(A), start(B)
    async with cluster(curve[1], port) as on:
        before = on.worker.takes_sessions
        await on.point_at(A)
        assert (before, on.worker.takes_sessions) == (False, True)
        a.target.gate.clear()
        running = [asyncio.create_task(on.run(number)) for number in range(6)]
        await until(lambda: on.worker.session_count == 6)
        await on.point_at(A, B)
        await on.point_at(B)
        assert (await on.run(6))[0] == expected(6)
        assert not any(task.done() for task in running)
        a.target.gate.set()
        for number, task in enumerate(running):
            token_ids, drafting = await task
            assert token_ids == expected(number)
            assert drafting.failovers == 0, "it ended where it was"
        await on.links(1)
        assert b.target.steps


async def test_a_worker_that_dies_and_leaves_hands_its_streams_over(curve, port, start) -> None:
    a, b = start(A), start(B)
    async with cluster(curve[1], port) as on:
        await on.point_at(A)
        a.target.gate.clear()
        running = [asyncio.create_task(on.run(number)) for number in range(6)]
        await until(lambda: on.worker.session_count == 6)
        await on.point_at(A, B)
        await on.point_at(B)
        a.stop()
        for number, task in enumerate(running):
            token_ids, drafting = await task
            assert token_ids == expected(number)
            assert drafting.failovers == 1
        await on.links(1)
        assert b.target.steps


async def test_a_name_without_an_answer_changes_nothing(curve, port, start) -> None:
    start(A)
    async with cluster(curve[1], port) as on:
        await on.point_at(A)
        on.dns.addresses = {}
        for number in range(3):
            assert (await on.run(number))[0] == expected(number)
        assert on.worker.ready_count == 1
