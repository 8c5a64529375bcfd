"""What `outrider keys --cluster` makes lets the services know each other, and nobody else in."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
import zmq
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from outrider.cluster_keys import plan
from outrider.cluster_keys.folder import KeyFolder
from outrider.protocol.messages import Heartbeat
from outrider.protocol.zmq_channel import ZmqDraftChannel, ZmqVerifyChannel, load_curve_keys
from outrider.supervision.ports import free_port

TIMEOUT_S = 5.0
BEAT = Heartbeat(bytes(16), 1)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    KeyFolder(folder, datetime.now(UTC)).fill("draft.svc")
    return folder


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers")
    KeyFolder(folder, datetime.now(UTC)).fill("draft.svc")
    return folder


def contexts(root: Path, client_root: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(root / plan.DRAFT_CERT, root / plan.DRAFT_KEY)
    server.load_verify_locations(root / plan.CA)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(root / plan.CA))
    client.load_cert_chain(client_root / plan.GATEWAY_CERT, client_root / plan.GATEWAY_KEY)
    for one in (server, client):
        one.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    return server, client


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """A handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(down, up, server_hostname=name)
    other = server.wrap_bio(up, down, server_side=True)
    open_ends = [one, other]
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
                open_ends.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not open_ends:
            return
    raise AssertionError("the handshake does not end")


def test_python_takes_the_certificates_in_its_strictest_mode(root: Path) -> None:
    shake_hands(*contexts(root, root), "draft.svc")


def test_another_name_or_another_root_is_refused(root: Path, strangers: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(*contexts(root, root), "verify.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(*contexts(root, strangers), "draft.svc")


def test_a_gateways_certificate_is_none_of_a_server(root: Path) -> None:
    server, client = contexts(root, root)
    server.load_cert_chain(root / plan.GATEWAY_CERT, root / plan.GATEWAY_KEY)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake_hands(server, client, "gateway")


@pytest.mark.asyncio
async def test_grpc_takes_the_certificates_too(root: Path, strangers: Path) -> None:
    def read(path: str, folder: Path = root) -> bytes:
        return (folder / path).read_bytes()

    server = grpc.aio.server()
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    pair = (read(plan.DRAFT_KEY), read(plan.DRAFT_CERT))
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], read(plan.CA), True)
    )
    await server.start()

    async def ask(folder: Path) -> int:
        credentials = grpc.ssl_channel_credentials(
            read(plan.CA), read(plan.GATEWAY_KEY, folder), read(plan.GATEWAY_CERT, folder)
        )
        options = (("grpc.ssl_target_name_override", "draft.svc"),)
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
            return int(answer.status)

    try:
        assert await ask(root) == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(strangers)
    finally:
        await server.stop(0)


def test_the_workers_talk_over_curve_and_strangers_do_not(root: Path, strangers: Path) -> None:
    keys = load_curve_keys(root / plan.VERIFY_SECRET, root / "curve")
    verify = ZmqVerifyChannel(f"tcp://127.0.0.1:{free_port(0)}", keys)
    context = zmq.Context()
    try:
        for folder, count in ((root, 1), (strangers, 0)):
            mine = load_curve_keys(folder / plan.DRAFT_SECRET, root / plan.VERIFY_PUBLIC)
            draft = ZmqDraftChannel(context, verify.endpoint, mine)
            draft.send(BEAT)
            arrived = verify.receive(1000 if count else 200)
            assert [one.message for one in arrived] == [BEAT] * count
            draft.close()
    finally:
        context.term()
        verify.close()
