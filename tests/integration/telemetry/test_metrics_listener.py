"""The listener of a worker's metrics, and who may read them."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from outrider.metrics_token import MetricsToken
from outrider.telemetry.metrics import DraftMetrics
from outrider.telemetry.metrics_listener import Admits, start_metrics_server

TOKEN = "0123456789abcdef"


@contextmanager
def listening(admits: Admits | None = None, host: str = "127.0.0.1") -> Iterator[int]:
    metrics = DraftMetrics()
    metrics.rounds.inc(7)
    server = start_metrics_server(metrics.registry, host, 0, admits)
    try:
        yield server.port
    finally:
        server.close()


def read(port: int, authorization: str = "", host: str = "127.0.0.1") -> bytes:
    headers = {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(f"http://{host}:{port}/metrics", headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as answer:
        body: bytes = answer.read()
    return body


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_listener_answers_and_frees_its_port(host: str) -> None:
    with listening(host=host) as port:
        assert b"outrider_rounds_total 7.0" in read(port, host=f"[{host}]" if ":" in host else host)
        with pytest.raises(OSError, match="in use"):
            start_metrics_server(DraftMetrics().registry, host, port)
    start_metrics_server(DraftMetrics().registry, host, port).close()


def test_with_a_token_its_bearer_may_read() -> None:
    with listening(MetricsToken(TOKEN).admits) as port:
        assert b"outrider_rounds_total 7.0" in read(port, f"Bearer {TOKEN}")
        for authorization in ("", TOKEN, f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer "):
            with pytest.raises(urllib.error.HTTPError) as caught:
                read(port, authorization)
            with caught.value as answer:
                assert answer.code == 401
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="metrics"'
                assert b"outrider_" not in answer.read()
