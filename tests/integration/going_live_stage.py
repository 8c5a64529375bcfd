"""A service that `outrider check` can visit, on real sockets: well, or broken in one way.

Its answers are a fixed function of text and seed. There is a moment between two rounds only where
they are looked at: of requests that ignore the end of sequence.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from outrider.grpc_status import abort
from outrider.protocol.errors import InvalidField, Unauthenticated, WorkerUnavailable
from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc
from tests.unit.evaluation.fake_service import right_ids

HOST = "127.0.0.1"
SERVICE = "outrider.v1.GenerationService"
MODEL = "fake"
ROUND_S = 0.02  # so long that a busy machine does not make one lump of them
CLEAN_PAGE = {
    "outrider_sessions": 0,
    "outrider_running_requests": 0,
    "outrider_kv_blocks_in_use": 0,
    "outrider_failovers_total": 0,
}


@dataclass
class Faults:
    """How the service is broken; nothing by default.

    Args:
        is_unhealthy: Both health answers say no.
        lies_over_http: /health says no while gRPC says yes.
        fails_requests: Every request fails while health says yes.
        http_model: What /v1/models lists.
        lumps: All messages of a stream come at its end; over gRPC, HTTP or both.
        wrong_method: Ids of this method are others.
        names_no_field: A bad value is refused without its name.
        takes_bad_values: It is not refused.
        key: Needed by whoever asks; "": none.
        fails_from: Number of requests after which each one fails.
        page: What the metrics page shows.
        default_method: Of requests that name none.
    """

    is_unhealthy: bool = False
    lies_over_http: bool = False
    fails_requests: bool = False
    http_model: str = MODEL
    lumps: tuple[str, ...] = ()
    wrong_method: str | None = None
    names_no_field: bool = False
    takes_bad_values: bool = False
    key: str = ""
    fails_from: int | None = None
    page: dict[str, float] = field(default_factory=lambda: dict(CLEAN_PAGE))
    default_method: str = "ngram"


class FakeGeneration(generation_pb2_grpc.GenerationServiceServicer):
    """The gRPC half."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._count = 0

    async def GetModel(
        self, request: generation_pb2.GetModelRequest, context: Any
    ) -> generation_pb2.GetModelResponse:
        await self._admit(context)
        return generation_pb2.GetModelResponse(
            model=MODEL,
            context_limit=4096,
            vocab_size=97,
            methods=["ngram", "none"],
            default_method=self._faults.default_method,
            has_chat_template=True,
        )

    async def Generate(  # type: ignore[override]
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        faults = self._faults
        await self._admit(context)
        if request.sampling.temperature < 0 and not faults.takes_bad_values:
            name = "" if faults.names_no_field else "sampling.temperature"
            await abort(context, InvalidField(name, "must be 0 to 100"))
        self._count += 1
        is_late = faults.fails_from is not None and self._count > faults.fails_from
        if faults.fails_requests or is_late:
            await abort(context, WorkerUnavailable("no verify worker answers"))
        messages = _messages(faults, request)
        pauses = _pauses(len(messages), "grpc" in faults.lumps)
        for message, pause_s in zip(messages, pauses, strict=True):
            if request.limits.ignore_eos:
                await asyncio.sleep(pause_s)
            await context.write(message)

    async def _admit(self, context: Any) -> None:
        key = self._faults.key
        sent = dict(context.invocation_metadata()).get("authorization", "")
        if key and sent != f"Bearer {key}":
            await abort(context, Unauthenticated("this API key is not known"))


def _pauses(count: int, is_lump: bool) -> list[float]:
    """Before each message: the same, or all of it before the first."""
    return [count * ROUND_S] + (count - 1) * [0.0] if is_lump else count * [ROUND_S]


def _messages(
    faults: Faults, request: generation_pb2.GenerateRequest
) -> list[generation_pb2.GenerateResponse]:
    count, method = request.limits.max_new_tokens, request.speculation.method
    ids = list(right_ids(request.chat.messages[0].content, count, request.sampling.seed))
    if faults.wrong_method == method and count > 2:
        ids[2] = (ids[2] + 1) % 97
    size = 1 if method == "none" else 2
    blocks = [ids[start : start + size] for start in range(0, count, size)]
    messages = [generation_pb2.GenerateResponse(token_ids=block, text="x") for block in blocks]
    last = messages[-1]
    last.finish_reason = decoding_pb2.FINISH_REASON_LENGTH
    last.usage.prompt_tokens, last.usage.completion_tokens = 5, count
    last.speculation_report.rounds = len(blocks)
    return messages


def _handler(faults: Faults) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/health":
                is_bad = faults.is_unhealthy or faults.lies_over_http
                self._reply(503 if is_bad else 200, {"reason": "loading"} if is_bad else {})
            elif self.path == "/v1/models":
                self._reply(200, {"data": [{"id": faults.http_model}]})
            else:
                lines = [f"{name} {value}\n" for name, value in faults.page.items()]
                self._send(200, "".join(lines).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not body.get("stream"):
                if faults.takes_bad_values:
                    return self._reply(200, {})
                param = None if faults.names_no_field else "sampling.temperature"
                return self._reply(400, {"error": {"param": param}})
            return self._stream(body["limits"]["max_new_tokens"])

        def _stream(self, count: int) -> None:
            self.send_response(200)
            self.end_headers()
            waiting = threading.Event()
            for number, pause_s in enumerate(_pauses(count, "http" in faults.lumps)):
                waiting.wait(pause_s)
                message: dict[str, Any] = {"token_ids": [number]}
                if number == count - 1:
                    message["speculation_report"] = {"rounds": count}
                self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")

        def _reply(self, status: int, body: dict[str, Any]) -> None:
            self._send(status, json.dumps(body).encode())

        def _send(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Handler


@contextmanager
def http_half(faults: Faults) -> Iterator[str]:
    """Serves HTTP; yields its root."""
    server = ThreadingHTTPServer((HOST, 0), _handler(faults))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def grpc_half(faults: Faults) -> AsyncIterator[str]:
    """Serves gRPC; yields its address."""
    server = grpc.aio.server()
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(FakeGeneration(faults), server)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    statuses = health_pb2.HealthCheckResponse
    await servicer.set(SERVICE, statuses.NOT_SERVING if faults.is_unhealthy else statuses.SERVING)
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    try:
        yield f"{HOST}:{port}"
    finally:
        await server.stop(0)
