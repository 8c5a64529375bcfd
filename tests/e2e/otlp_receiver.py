"""Receives spans over OTLP/gRPC in the test's own process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True)
class ReceivedSpan:
    """What the tests look at; ids in lower-case hex."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]


class OtlpReceiver(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps all spans that arrive between `start` and `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[ReceivedSpan] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")

    def start(self) -> None:
        """Begins to listen."""
        self._server.start()

    def stop(self) -> None:
        """Ends at once."""
        self._server.stop(None).wait()

    def environment(self) -> dict[str, str]:
        """Variables that make a process export here, soon after each span."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_EXPORTER_OTLP_INSECURE": "true",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def Export(self, request: Any, context: Any) -> Any:
        """The RPC."""
        with self._lock:
            for resource in request.resource_spans:
                values = {a.key: a.value.string_value for a in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self._spans.append(_received(values.get("service.name", ""), span))
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """Spans of one trace so far."""
        with self._lock:
            return [span for span in self._spans if span.trace_id == trace_id]


def _received(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes={
            a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value")
            for a in span.attributes
        },
    )
