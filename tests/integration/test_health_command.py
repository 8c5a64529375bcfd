"""`outrider health` against real listeners: what it says, and its exit status."""

import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from outrider.health import ADDRESS_VARIABLE, main
from outrider.supervision.ports import free_port


@pytest.fixture
def worker() -> Iterator[tuple[str, health.HealthServicer]]:
    """A health port as a worker has it: live, not ready."""
    servicer = health.HealthServicer()
    servicer.set("live", health_pb2.HealthCheckResponse.SERVING)
    servicer.set("ready", health_pb2.HealthCheckResponse.NOT_SERVING)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer
    server.stop(None).wait()


class _Gateway(BaseHTTPRequestHandler):
    is_serving = True

    def do_GET(self) -> None:
        body = b'{"status": "serving"}' if self.is_serving else b'{"reason": "no worker"}'
        self.send_response(200 if self.is_serving and self.path == "/health" else 503)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[str]:
    """A probe listener that serves."""
    server = HTTPServer(("127.0.0.1", 0), _Gateway)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("service", "status", "line"),
    [
        ("live", 0, "serving"),
        ("ready", 1, "not serving: NOT_SERVING"),
        ("other", 1, "not serving: it knows no service 'other'"),
    ],
)
def test_a_worker_is_asked_over_grpc(
    worker: tuple[str, health.HealthServicer],
    service: str,
    status: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([worker[0], "--service", service], {}) == status
    assert capsys.readouterr().out == line + "\n"


def test_a_gateway_is_asked_over_http(
    gateway: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([gateway], {}) == 0
    assert main([f"{gateway}/health"], {}) == 0
    monkeypatch.setattr(_Gateway, "is_serving", False)
    assert main([gateway], {}) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "not serving: no worker"


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_who_does_not_answer_does_not_serve(
    scheme: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"{scheme}127.0.0.1:{free_port(0)}"
    assert main([address, "--timeout-s", "1"], {}) == 1
    assert capsys.readouterr().out == "not serving: no answer\n"


def test_the_environment_may_name_the_address(worker: tuple[str, health.HealthServicer]) -> None:
    assert main(["--service", "live"], {ADDRESS_VARIABLE: worker[0]}) == 0


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", "https://a:1", "http://a:1/metrics", "a:b", "a:0"]
)
def test_a_bad_address_is_status_78(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([address] if address else [], {}) == 78
    assert "ADDRESS" in capsys.readouterr().err or address


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_listener_that_never_answers_is_given_up(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{scheme}127.0.0.1:{silent.getsockname()[1]}"
        assert main([address, "--timeout-s", "0.2"], {}) == 1
