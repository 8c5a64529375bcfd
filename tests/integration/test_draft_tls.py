"""TLS between gateway and draft workers: who is trusted, what is said of the others, and new
certificates under running streams."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.draft_client import DraftClient
from gateway.draft_tls import DraftTls, DraftTlsFiles
from gateway.draft_workers import DraftWorkers
from outrider.discovery import Discovery
from outrider.protocol.errors import WorkerUnavailable
from outrider.telemetry.metrics import GatewayMetrics
from outrider.tls import Tls, TlsFiles
from outrider.v1 import decoding_pb2, drafting_pb2
from tests.fakes.certificates import write_pair
from tests.integration.gateway_stage import HOST, ScriptedDrafting, script, start_drafting
from tests.unit.gateway.tiny_tokenizer import ids_of, tiny_prompt_tokenizer

pytestmark = pytest.mark.asyncio

NAME = "draft"


class Cluster:
    """The certificates of a cluster, in files that can be written anew.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.issue(trustme.CA())
        self.worker = Tls(TlsFiles(*self._pair("worker-"), self._folder / "ca.pem"))
        files = DraftTlsFiles(self._folder / "ca.pem", *self._pair("gateway-"), NAME)
        self.gateway = DraftTls(files)

    def issue(self, ca: trustme.CA) -> None:
        """Replaces all files by those of another root."""
        self._folder.mkdir(exist_ok=True)
        write_pair(ca, self._folder, NAME, stem="worker-")
        write_pair(ca, self._folder, "gateway", stem="gateway-")
        (self._folder / "ca.pem").write_bytes(ca.cert_pem.bytes())

    def _pair(self, stem: str) -> tuple[Path, Path]:
        return self._folder / f"{stem}cert.pem", self._folder / f"{stem}key.pem"

    def gateway_that_expects(self, name: str) -> DraftTls:
        """A gateway that knows another name."""
        files = DraftTlsFiles(self._folder / "ca.pem", *self._pair("gateway-"), name)
        return DraftTls(files)

    def gateway_with_the_certificate_of(self, other: "Cluster") -> DraftTls:
        """A gateway that trusts this cluster and is a stranger to it."""
        files = DraftTlsFiles(self._folder / "ca.pem", *other._pair("gateway-"), NAME)
        return DraftTls(files)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "ours")


@pytest.fixture
def other(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "theirs")


@asynccontextmanager
async def worker(drafting: ScriptedDrafting, tls: Tls | None) -> AsyncIterator[str]:
    """A draft worker; yields its address."""
    server, port = await start_drafting(drafting, tls=tls)
    try:
        yield f"{HOST}:{port}"
    finally:
        await server.stop(0)


def workers_at(*addresses: str, tls: DraftTls | None) -> DraftWorkers:
    def open_client(address: str) -> DraftClient:
        return DraftClient(address, tiny_prompt_tokenizer(), 5.0, tls=tls)

    return DraftWorkers(Discovery(addresses), open_client, GatewayMetrics())


async def problem_at(address: str, tls: DraftTls | None) -> str:
    """What a gateway says of one worker; "" where it serves."""
    async with workers_at(address, tls=tls) as workers:
        await workers.ask()
        return workers.problem


def request(number: int) -> drafting_pb2.DraftRequest:
    limits = decoding_pb2.DecodeLimits(max_new_tokens=20)
    return drafting_pb2.DraftRequest(
        session_id=bytes([number]) * 16, prompt_token_ids=[1], limits=limits
    )


async def test_they_know_each_other_whatever_the_address(cluster: Cluster) -> None:
    async with worker(script("abc"), cluster.worker) as address:
        assert await problem_at(address, cluster.gateway) == ""


Refusal = tuple[Callable[[Cluster, Cluster], tuple[Tls | None, DraftTls | None]], str]
REFUSALS: dict[str, Refusal] = {
    "another root": (
        lambda ours, theirs: (theirs.worker, ours.gateway),
        "its certificate is not trusted (unable to get local issuer certificate); see "
        "--draft-tls-ca",
    ),
    "another name": (
        lambda ours, _: (ours.worker, ours.gateway_that_expects("verify")),
        "its certificate is not for the name of --draft-tls-name",
    ),
    "a stranger's certificate": (
        lambda ours, theirs: (ours.worker, ours.gateway_with_the_certificate_of(theirs)),
        "it refused the certificate of --draft-tls-cert; see its --tls-client-ca",
    ),
    "no TLS there": (
        lambda ours, _: (None, ours.gateway),
        "it speaks without TLS; give it --tls-cert, --tls-key and --tls-client-ca, or leave out "
        "--draft-tls-ca here",
    ),
    "no TLS here": (
        lambda ours, _: (ours.worker, None),
        "it closed the connection at once; if it has TLS, set --draft-tls-ca, -cert and -key",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_who_does_not_fit_is_unavailable_in_words(
    cluster: Cluster, other: Cluster, name: str
) -> None:
    choose, words = REFUSALS[name]
    worker_tls, gateway_tls = choose(cluster, other)
    async with worker(script("abc"), worker_tls) as address:
        problem = await problem_at(address, gateway_tls)
    assert problem == f"no draft worker answers at {address}: {words}"


async def test_a_worker_with_a_wrong_certificate_is_logged_once_and_others_serve(
    cluster: Cluster, other: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        worker(script("abc"), other.worker) as bad,
        worker(script("abc"), cluster.worker) as good,
        workers_at(bad, good, tls=cluster.gateway) as workers,
    ):
        with caplog.at_level(logging.WARNING, "gateway"):
            for _ in range(3):
                await workers.ask()
        assert workers.problem == ""
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"draft worker {bad} cannot be used: ")
    assert "is not trusted" in line


async def test_new_certificates_of_both_sides_under_a_running_stream(cluster: Cluster) -> None:
    drafting = script("abc", hold_after=1)
    async with (
        worker(drafting, cluster.worker) as address,
        workers_at(address, tls=cluster.gateway) as workers,
    ):
        await workers.ask()
        client = workers._clients[address]
        stream = client.draft(request(1), 10.0, "")
        tokens = list((await anext(stream)).token_ids)
        cluster.issue(trustme.CA())
        cluster.worker.reload()
        cluster.gateway.reload()
        workers.renew()
        await workers.ask()
        assert workers.problem == ""
        assert len(client._retired) == 1, "the old connection stays for its stream"
        drafting.release.set()
        tokens += [token async for one in stream for token in one.token_ids]
        assert tokens[:3] == ids_of("abc")
        await asyncio.gather(*client._retired.values())
        assert not client._retired


async def test_a_stream_on_an_old_connection_is_cut_where_the_worker_hangs(
    cluster: Cluster,
) -> None:
    drafting = script("abc", hold_after=1)
    async with (
        worker(drafting, cluster.worker) as address,
        workers_at(address, tls=cluster.gateway) as workers,
    ):
        await workers.ask()
        client = workers._clients[address]
        stream: Any = client.draft(request(1), 10.0, "")
        await anext(stream)
        workers.renew()
        client.abandon()
        with pytest.raises(WorkerUnavailable, match="hangs"):
            await anext(stream)
