import logging
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from outrider.telemetry import tracing

RECEIVER = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.fixture(autouse=True)
def _stop_tracing() -> Iterator[None]:
    yield
    tracing.shutdown_tracing()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use_provider(provider)
    return exporter


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "  "}, False),
        (RECEIVER, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}, True),
        (RECEIVER | {"OTEL_SDK_DISABLED": "TRUE"}, False),
        (RECEIVER | {"OTEL_SDK_DISABLED": "false"}, True),
        (RECEIVER | {"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_environment_decides_whether_spans_are_exported(
    environ: dict[str, str], expected: bool
) -> None:
    assert tracing.is_enabled(environ) is expected


def test_without_a_receiver_spans_do_not_record_and_have_no_traceparent() -> None:
    tracing.setup_tracing("outrider-gateway", {})
    with tracing.tracer().start_as_current_span("request") as span:
        assert not span.is_recording()
        assert tracing.traceparent(span) == ""


def test_one_trace_passes_through_a_traceparent(spans: InMemorySpanExporter) -> None:
    request = tracing.tracer().start_span("request")
    sent = tracing.traceparent(request)
    round_span = tracing.start_span_under(sent, "round", attributes={"outrider.round": 3})
    step = tracing.tracer().start_span("step", context=tracing.parent_context(sent))
    for span in (step, round_span, request):
        span.end()

    by_name = {span.name: span for span in spans.get_finished_spans()}
    root = by_name["request"].context
    assert sent.startswith(f"00-{root.trace_id:032x}-{root.span_id:016x}-")
    for name in ("round", "step"):
        parent = by_name[name].parent
        assert parent is not None
        assert (parent.trace_id, parent.span_id) == (root.trace_id, root.span_id)
        assert parent.is_remote
    assert dict(by_name["round"].attributes or {}) == {"outrider.round": 3}


@pytest.mark.parametrize(
    "bad", ["", "00", "garbage", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "ff-x", "\x00"]
)
def test_a_bad_traceparent_is_an_empty_context_and_starts_no_span(
    bad: str, spans: InMemorySpanExporter
) -> None:
    assert not tracing.parent_context(bad)
    tracing.start_span_under(bad, "round").end()
    assert spans.get_finished_spans() == ()


def test_a_request_that_is_not_sampled_leaves_no_orphans_behind(
    spans: InMemorySpanExporter,
) -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("client")
    sent = tracing.traceparent(unsampled.start_span("request"))
    tracing.start_span_under(sent, "round").end()
    assert spans.get_finished_spans() == ()


def test_setting_up_names_the_service_and_shutting_down_stops_recording() -> None:
    tracing.setup_tracing("outrider-draft", RECEIVER)
    span = tracing.tracer().start_span("never ended, so never sent")
    assert span.is_recording()
    assert span.resource.attributes["service.name"] == "outrider-draft"  # type: ignore[attr-defined]
    tracing.shutdown_tracing()
    assert not tracing.tracer().start_span("late").is_recording()


SAMPLED, UNSAMPLED = f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-00"


@pytest.mark.parametrize(
    ("sampler", "share", "expected"),
    [
        (None, None, {"": True, SAMPLED: True, UNSAMPLED: False}),
        ("parentbased_always_off", None, {"": False, SAMPLED: True, UNSAMPLED: False}),
        ("parentbased_traceidratio", "0", {"": False, SAMPLED: True, UNSAMPLED: False}),
        ("parentbased_traceidratio", "1", {"": True, SAMPLED: True, UNSAMPLED: False}),
        ("always_off", None, {"": False, SAMPLED: False, UNSAMPLED: False}),
    ],
)
def test_the_standard_variables_choose_the_sampler(
    monkeypatch: pytest.MonkeyPatch,
    sampler: str | None,
    share: str | None,
    expected: dict[str, bool],
) -> None:
    """A client's decision wins where the sampler is parent-based, as it is by default."""
    for name, value in (("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", share)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    tracing.setup_tracing("outrider-gateway", RECEIVER)
    tracer = tracing.tracer()
    found = {
        parent: tracer.start_span("generate", context=tracing.parent_context(parent)).is_recording()
        for parent in expected
    }
    assert found == expected


def test_otel_service_name_wins() -> None:
    tracing.setup_tracing("outrider-draft", RECEIVER | {"OTEL_SERVICE_NAME": "mine"})
    span = tracing.tracer().start_span("round")
    assert span.resource.attributes["service.name"] == "mine"  # type: ignore[attr-defined]


def test_settings_that_the_sdk_refuses_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    with caplog.at_level(logging.WARNING):
        tracing.setup_tracing("outrider-verify", RECEIVER)
    assert "traces are off" in caplog.text
    assert not tracing.tracer().start_span("step").is_recording()


def test_shutting_down_does_not_wait_for_a_receiver_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()

    class Stuck(TracerProvider):
        def shutdown(self) -> None:
            released.wait()

    monkeypatch.setattr(tracing, "SHUTDOWN_SECONDS", 0.01)
    tracing.use_provider(Stuck(shutdown_on_exit=False))
    tracing.shutdown_tracing()
    released.set()
    assert "were not sent" in caplog.text
