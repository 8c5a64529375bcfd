import urllib.request

import pytest

from outrider.telemetry.metrics import DraftMetrics, start_metrics_server


def test_the_listener_answers_and_frees_its_port() -> None:
    metrics = DraftMetrics()
    metrics.rounds.inc(7)
    server = start_metrics_server(metrics.registry, "127.0.0.1", 0)
    port = server.port
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert b"outrider_rounds_total 7.0" in answer.read()
        with pytest.raises(OSError, match="in use"):
            start_metrics_server(metrics.registry, "127.0.0.1", port)
    finally:
        server.close()
    start_metrics_server(metrics.registry, "127.0.0.1", port).close()
