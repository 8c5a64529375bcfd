"""What a request leaves behind in metrics and spans."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gateway.request_record import RequestRecord
from gateway.requests import GenerationJob
from outrider.protocol.decoding import DecodeLimits, Sampling, Speculation
from outrider.telemetry import tracing
from outrider.telemetry.metrics import GatewayMetrics, render
from outrider.v1 import generation_pb2

JOB = GenerationJob((5, 6), Sampling(), DecodeLimits(3), (), Speculation(), False, 0, "")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def _traced() -> Iterator[None]:
    tracing.use_provider(TracerProvider(shutdown_on_exit=False))
    yield
    tracing.shutdown_tracing()


def answered(metrics: GatewayMetrics, *, is_placed: bool = True) -> RequestRecord:
    """Two prompt tokens; three tokens in two messages, at 1 s and at 2 s; closed at 3 s."""
    record = RequestRecord(metrics, "", 0.0)
    record.read(JOB, "tiny")
    if is_placed:
        record.placed(b"s" * 16, 0)
        record.sent(generation_pb2.GenerateResponse(token_ids=[1]), 1.0)
        record.sent(generation_pb2.GenerateResponse(token_ids=[2, 3]), 2.0)
    record.close("ok" if is_placed else "queue_full", 3.0)
    return record


def test_tokens_are_counted_where_a_worker_had_the_prompt() -> None:
    metrics = GatewayMetrics()
    answered(metrics)
    answered(metrics, is_placed=False)
    value = metrics.registry.get_sample_value
    assert value("outrider_tokens_total", {"type": "input"}) == 2
    assert value("outrider_tokens_total", {"type": "output"}) == 3
    assert value("outrider_requests_total", {"outcome": "queue_full"}) == 1
    assert value("gen_ai_server_time_to_first_token_seconds_sum") == 1.0
    assert value("gen_ai_server_time_per_output_token_seconds_sum") == 0.5
    assert value("gen_ai_server_request_duration_seconds_sum") == 6.0


@pytest.mark.usefixtures("_traced")
def test_latencies_lead_to_the_trace_of_a_request() -> None:
    metrics = GatewayMetrics()
    record = answered(metrics)
    text = render(metrics.registry, OPENMETRICS)[0].decode()
    found = {
        family.name: sample.exemplar.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.exemplar
    }
    labels = {"trace_id": f"{record.span.get_span_context().trace_id:032x}"}
    assert found == {
        "gen_ai_server_time_to_first_token_seconds": labels,
        "gen_ai_server_request_duration_seconds": labels,
    }


def test_without_a_trace_there_is_no_exemplar() -> None:
    metrics = GatewayMetrics()
    answered(metrics)
    assert b"trace_id" not in render(metrics.registry, OPENMETRICS)[0]
