"""What a request leaves behind in metrics and spans."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
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
def traced() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use_provider(provider)
    yield exporter
    tracing.shutdown_tracing()


def answered(metrics: GatewayMetrics, *, is_placed: bool = True) -> RequestRecord:
    """Two prompt tokens; three tokens in two messages, at 1 s and at 2 s; closed at 3 s."""
    record = RequestRecord(metrics, "", 0.0)
    record.read(JOB, "tiny", "chat")
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


@pytest.mark.usefixtures("traced")
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


@pytest.mark.parametrize(
    ("sampling", "choices", "expected"),
    [
        (Sampling(), 1, {}),
        (
            Sampling(temperature=0.7, top_k=40, seed=7),
            3,
            {
                "gen_ai.request.top_k": 40,
                "gen_ai.request.seed": 7,
                "gen_ai.request.choice.count": 3,
            },
        ),
        (Sampling(temperature=0.7, seed=2**64 - 1), 1, {}),
    ],
)
def test_a_span_tells_what_was_asked_for_in_the_words_of_the_conventions(
    traced: InMemorySpanExporter, sampling: Sampling, choices: int, expected: dict[str, object]
) -> None:
    record = RequestRecord(GatewayMetrics(), "", 10.0)
    record.read(replace(JOB, sampling=sampling, choices=choices), "tiny", "chat")
    record.sent(generation_pb2.GenerateResponse(token_ids=[1]), 10.5)
    record.close("ok", 11.0)
    [span] = traced.get_finished_spans()
    assert span.name == "chat tiny"
    assert dict(span.attributes or {}) == expected | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "outrider",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny",
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 3,
        "gen_ai.usage.input_tokens": 2,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.response.time_to_first_chunk": 0.5,
    }


def test_without_a_trace_there_is_no_exemplar() -> None:
    metrics = GatewayMetrics()
    answered(metrics)
    assert b"trace_id" not in render(metrics.registry, OPENMETRICS)[0]
