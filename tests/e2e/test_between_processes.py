"""The three processes as they are deployed: beyond loopback, found by name, each one known to the
others by its certificate or key, watched over health ports and metrics with a token."""

import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import grpc
import trustme
import zmq
from grpc_health.v1 import health_pb2, health_pb2_grpc
from zmq.auth import create_certificates

from outrider.evaluation.service import free_ports, wait_until_served
from outrider.protocol import messages as m
from outrider.protocol.channel import Received
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.zmq_channel import ZmqDraftChannel
from tests.e2e.processes import wait_for
from tests.e2e.streams import Client, ids_of, ids_request
from tests.e2e.test_separate_processes import START_TIMEOUT_S, running
from tests.e2e.tiny_model import TinyModel
from tests.fakes.certificates import write_pair

EVERYWHERE = "0.0.0.0"
TOKEN = "a-token-for-tests-only"
SERVING, NOT_SERVING = "SERVING", "NOT_SERVING"


def write_keys(folder: Path) -> None:
    """CURVE keys, certificates and the token of a cluster."""
    folder.mkdir()
    for name in ("verify", "draft"):
        create_certificates(folder, name)
        (folder / f"{name}.key_secret").chmod(0o600)
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    write_pair(ca, folder, "draft", stem="draft-")
    write_pair(ca, folder, "gateway", stem="gateway-")
    (folder / "token").write_text(f"{TOKEN}\n")


def health_of(port: int) -> dict[str, str] | None:
    """What a worker's health port says; None where it does not answer yet."""
    status = health_pb2.HealthCheckResponse.ServingStatus
    found = {}
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("live", "ready"):
            request = health_pb2.HealthCheckRequest(service=service)
            try:
                found[service] = status.Name(stub.Check(request, timeout=5).status)
            except grpc.RpcError:
                return None
    return found


def says(port: int, live: str, ready: str) -> Callable[[], bool]:
    return lambda: health_of(port) == {"live": live, "ready": ready}


def metrics_status(port: int, authorization: str) -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Authorization": authorization}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_three_processes_that_know_each_other_serve_beyond_loopback(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    write_keys(keys)
    grpc_port, http_port, draft_port, verify_port, *rest = free_ports(9)
    probe_port, draft_metrics, verify_metrics, draft_health, verify_health = rest
    watched = {"metrics_host": EVERYWHERE, "metrics_token_file": keys / "token"}
    with ExitStack() as stack:

        def start(module: str, **flags: object) -> None:
            stack.enter_context(running(tmp_path / f"{module}.log", module, **flags))

        gateway = stack.enter_context(
            running(
                tmp_path / "gateway.log",
                "gateway",
                model=tiny_model.folder,
                draft_addresses=f"dns:localhost:{draft_port}",
                draft_tls_ca=keys / "ca.pem",
                draft_tls_cert=keys / "gateway-cert.pem",
                draft_tls_key=keys / "gateway-key.pem",
                grpc_port=grpc_port,
                http_port=http_port,
                probe_host=EVERYWHERE,
                probe_port=probe_port,
                metrics_token_file=keys / "token",
            )
        )
        start(
            "draft_service",
            verify_endpoints=f"dns:localhost:{verify_port}",
            curve_key=keys / "draft.key_secret",
            curve_peers=keys / "verify.key",
            grpc_host=EVERYWHERE,
            grpc_port=draft_port,
            tls_cert=keys / "draft-cert.pem",
            tls_key=keys / "draft-key.pem",
            tls_client_ca=keys / "ca.pem",
            metrics_port=draft_metrics,
            health_host=EVERYWHERE,
            health_port=draft_health,
            **watched,
        )
        wait_for("a draft worker without a verify worker", says(draft_health, SERVING, NOT_SERVING))
        start(
            "verify_service",
            model=tiny_model.folder,
            endpoint=f"tcp://{EVERYWHERE}:{verify_port}",
            curve_key=keys / "verify.key_secret",
            curve_peers=keys,
            dtype="float32",
            threads=1,
            metrics_port=verify_metrics,
            health_host=EVERYWHERE,
            health_port=verify_health,
            **watched,
        )
        wait_until_served(f"127.0.0.1:{grpc_port}", gateway, START_TIMEOUT_S)
        for port in (verify_health, draft_health):
            wait_for("a worker that is ready", says(port, SERVING, SERVING))
        client = Client(f"127.0.0.1:{grpc_port}")
        stack.callback(client.close)
        cycle = tiny_model.cycle()
        responses = client.generate(ids_request(cycle.prompt_ids, 20, "", ignore_eos=True))
        assert ids_of(responses) == cycle.next_ids[:20]
        for port in (probe_port, draft_metrics, verify_metrics):
            assert metrics_status(port, f"Bearer {TOKEN}") == 200
            assert metrics_status(port, "") == 401


def test_a_verify_worker_that_drains_is_live_and_at_once_not_ready(
    tiny_model: TinyModel, tmp_path: Path
) -> None:
    verify_port, health_port = free_ports(2)
    endpoint = f"tcp://127.0.0.1:{verify_port}"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with running(
        tmp_path / "verify.log",
        "verify_service",
        model=tiny_model.folder,
        endpoint=endpoint,
        dtype="float32",
        threads=1,
        metrics_port=0,
        health_port=health_port,
        lease_ms=60_000,
    ) as process:
        wait_for("loading or more", lambda: health_of(health_port), START_TIMEOUT_S)
        wait_for("a worker that is ready", says(health_port, SERVING, SERVING), START_TIMEOUT_S)
        peer = ZmqDraftChannel(context, endpoint)
        session_id = b"s" * 16
        limits = DecodeLimits(5, ignore_eos=True)
        peer.send(m.Hello(b"boot"))
        peer.send(m.OpenSession(session_id, 0, (1, 2), 2, Sampling(), limits))
        wait_for("its greeting", lambda: any(peer.receive()))
        process.send_signal(signal.SIGTERM)
        wait_for("its farewell", lambda: any(_is_farewell(one) for one in peer.receive()))
        assert health_of(health_port) == {"live": SERVING, "ready": NOT_SERVING}
        peer.send(m.CloseSession(session_id, 0))
        assert process.wait(START_TIMEOUT_S) == 0
        peer.close()
    context.term()


def _is_farewell(received: Received) -> bool:
    return isinstance(received.message, m.GoAway)
