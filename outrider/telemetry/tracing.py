"""Spans of one process, exported over OTLP where the standard OTEL_* variables ask for it.

One trace spans the three processes: `traceparent` writes a span for the next one and
`parent_context` reads it there. Refuses to know what a span is about. Telemetry never stops a
service: whatever is wrong with the exporter is a warning.
"""

import logging
import threading
from collections.abc import Mapping
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

SHUTDOWN_SECONDS = 3.0  # longest wait for the last spans; an unreachable receiver would take 10

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_logger = logging.getLogger(__name__)
_propagator = TraceContextTextMapPropagator()

_provider: TracerProvider | None = None
_tracer = trace.get_tracer(__name__)


def is_enabled(environ: Mapping[str, str]) -> bool:
    """True where the environment names a receiver of traces and does not switch them off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environ.get(name, "").strip() for name in _ENDPOINTS)


def setup_tracing(service_name: str, environ: Mapping[str, str]) -> None:
    """Starts exporting spans, where the environment asks for it; otherwise does nothing.

    Sampler, headers, certificates and batch sizes are read by the OpenTelemetry SDK itself from
    the process's own environment.

    Args:
        service_name: `service.name` of the spans; OTEL_SERVICE_NAME wins over it.
        environ: Environment that is asked whether and under which name to export.
    """
    if not is_enabled(environ):
        return
    name = environ.get("OTEL_SERVICE_NAME", "").strip() or service_name
    try:
        resource = Resource.create({"service.name": name, "service.version": version("outrider")})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except Exception as error:  # whatever a variable holds, the service starts
        _logger.warning("traces are off: the OTEL_* settings cannot be used: %s", error)
        return
    use_provider(provider)


def use_provider(provider: TracerProvider) -> None:
    """Makes `tracer()` record with this provider; `shutdown_tracing` ends it.

    Args:
        provider: For a test: one with an in-memory exporter.
    """
    global _provider, _tracer
    _provider = provider
    _tracer = provider.get_tracer(__name__)


def shutdown_tracing() -> None:
    """Sends what is left, for at most SHUTDOWN_SECONDS; spans started later are not recorded."""
    global _provider, _tracer
    provider, _provider = _provider, None
    _tracer = trace.get_tracer(__name__)
    if provider is None:
        return
    # The SDK's own shutdown takes no time limit and waits for an unreachable receiver.
    thread = threading.Thread(target=provider.shutdown, name="tracing-shutdown", daemon=True)
    thread.start()
    thread.join(SHUTDOWN_SECONDS)
    if thread.is_alive():
        _logger.warning("the last spans were not sent within %g s", SHUTDOWN_SECONDS)


def tracer() -> trace.Tracer:
    """The tracer of this process; its spans do not record where tracing is off."""
    return _tracer


def traceparent(span: trace.Span) -> str:
    """Writes a span as a W3C `traceparent`.

    Args:
        span: The span that the next process's spans belong under.

    Returns:
        The header's value; "" where the span does not record, which means "do not trace".
    """
    if not span.is_recording():
        return ""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get("traceparent", "")


def parent_context(traceparent: str) -> Context:
    """Reads a W3C `traceparent`.

    Args:
        traceparent: What a peer sent.

    Returns:
        The context to start a span in; an empty one where the value is bad or empty.
    """
    return _propagator.extract({"traceparent": traceparent}, context=Context())


def start_span_under(
    traceparent: str,
    name: str,
    kind: trace.SpanKind = trace.SpanKind.INTERNAL,
    attributes: Attributes = None,
) -> trace.Span:
    """Starts a span under one of another process, and none where that one is not traced.

    A span started in an empty context would be a trace of its own, so a request that was not
    sampled would come back as orphans of the later processes.

    Args:
        traceparent: What the peer sent; bad or empty: not traced.
        name: Name of the span.
        kind: Its kind.
        attributes: Its attributes.

    Returns:
        The span, to be ended by the caller; it does not record where the peer's does not.
    """
    context = parent_context(traceparent)
    if not context:
        return trace.INVALID_SPAN
    return _tracer.start_span(name, context=context, kind=kind, attributes=attributes)
