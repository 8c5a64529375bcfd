"""The HTTP API: translates between JSON and `generation.py`; decides nothing about a request."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib.metadata import version

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gateway.approaches import http_approach
from gateway.body_reader import parsed, read_json_bytes
from gateway.choices import Messages
from gateway.event_stream import DONE_EVENT, EventStream
from gateway.generation import Generation
from gateway.guard import Guard
from gateway.http_body import body_schema, read_body
from gateway.http_errors import (
    CLIENT_CLOSED_REQUEST,
    HttpError,
    error_event,
    error_response,
    http_error,
)
from gateway.http_messages import collected_choices, message_json
from gateway.openai_routes import add_openai_routes
from gateway.probes import health_response, metrics_response
from gateway.readiness import Readiness
from gateway.waiting import ClientGone, first_of, unless_gone
from outrider.api_keys import Permission
from outrider.protocol.errors import InternalFailure, InvalidField, OutriderError
from outrider.telemetry.metrics import GatewayMetrics
from outrider.v1 import generation_pb2

_JSON_CONTENT = {"application/json": {"schema": body_schema()}}


def create_app(
    generation: Generation,
    readiness: Readiness,
    metrics: GatewayMetrics,
    max_request_bytes: int,
    guard: Guard,
    read_timeout_s: float,
) -> FastAPI:
    """Builds the HTTP API.

    Args:
        generation: Answers requests.
        readiness: Answers /health.
        metrics: Shown at /metrics.
        max_request_bytes: Largest body.
        guard: Lets callers in; /health is for everybody.
        read_timeout_s: How long a client may read nothing of its answer, seconds.

    Returns:
        An ASGI application.
    """
    app = FastAPI(title="Outrider", version=version("outrider"))
    _add_error_handlers(app)
    add_openai_routes(app, generation, max_request_bytes, guard, read_timeout_s)

    @app.post("/generate", openapi_extra={"requestBody": {"content": _JSON_CONTENT}})
    async def generate(request: Request) -> Response:
        """Generates from one prompt, as JSON or as server-sent events."""
        caller = guard.admit(http_approach(request), Permission.GENERATE)
        body = await parsed(read_body, await read_json_bytes(request, max_request_bytes))
        wants_events = body.stream
        if wants_events is None:
            wants_events = "text/event-stream" in request.headers.get("accept", "")
        if body.report_rounds and not wants_events:
            raise InvalidField("report_rounds", "needs stream to be true")
        messages = generation.generate(
            body.to_proto(), None, request.headers.get("traceparent", ""), caller
        )
        if wants_events:
            first = await unless_gone(request, first_of(messages))
            events = _events(first, messages, body.logprobs)
            return EventStream(events, messages, read_timeout_s)
        wholes = await unless_gone(request, collected_choices(messages))
        answers = [message_json(whole, body.logprobs) for whole in wholes]
        return JSONResponse(answers[0] if len(answers) == 1 else {"choices": answers})

    @app.get("/v1/models")
    async def models(request: Request) -> JSONResponse:
        """Lists the one served model."""
        guard.admit(http_approach(request), Permission.MODELS)
        model = await generation.describe()
        entry = {
            "id": model.model,
            "object": "model",
            "owned_by": "outrider",
            "context_limit": model.context_limit,
            "vocab_size": model.vocab_size,
            "methods": list(model.methods),
            "default_method": model.default_method,
            "max_nodes": model.max_nodes,
            "max_depth": model.max_depth,
            "has_chat_template": model.has_chat_template,
        }
        return JSONResponse({"object": "list", "data": [entry]})

    @app.get("/health")
    async def health() -> JSONResponse:
        """200 where a request can be served now, else 503 and why not."""
        return health_response(readiness)

    @app.get("/metrics")
    async def show_metrics(request: Request) -> Response:
        """All metrics in the Prometheus or OpenMetrics text form."""
        guard.admit(http_approach(request), Permission.METRICS)
        return metrics_response(request, metrics)

    return app


def _add_error_handlers(app: FastAPI) -> None:
    async def on_typed(request: Request, error: Exception) -> Response:
        assert isinstance(error, OutriderError)
        return error_response(http_error(error))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        return error_response(error)

    async def on_routing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        response = error_response(HttpError(error.status_code, code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response

    async def on_gone(request: Request, error: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def on_unknown(request: Request, error: Exception) -> Response:
        return error_response(http_error(InternalFailure("internal error")))

    app.add_exception_handler(OutriderError, on_typed)
    app.add_exception_handler(HttpError, on_http)
    app.add_exception_handler(HTTPException, on_routing)
    app.add_exception_handler(ClientGone, on_gone)
    app.add_exception_handler(Exception, on_unknown)


async def _events(
    first: generation_pb2.GenerateResponse, messages: Messages, logprobs: bool
) -> AsyncGenerator[str, None]:
    async with aclosing(messages):
        yield _event(first, logprobs)
        try:
            async for message in messages:
                yield _event(message, logprobs)
        except OutriderError as error:
            yield error_event(http_error(error))
            return
        yield DONE_EVENT


def _event(message: generation_pb2.GenerateResponse, logprobs: bool) -> str:
    return f"data: {json.dumps(message_json(message, logprobs), ensure_ascii=False)}\n\n"
