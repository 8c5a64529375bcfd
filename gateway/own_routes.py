"""POST /generate in the shape of this service, and what is served. Translates, decides nothing.

A body in the shape of TGI is passed on to `tgi_routes.py`.
"""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.approaches import http_approach
from gateway.choices import Messages
from gateway.event_stream import DONE_EVENT
from gateway.guard import Caller
from gateway.http_body import GenerateBody
from gateway.http_calls import HttpCalls
from gateway.http_errors import error_event, http_error, unknown_model
from gateway.http_messages import message_json
from gateway.json_body import body_in_openapi, read_fields, read_value
from gateway.tgi_body import TgiBody, is_tgi, read_tgi
from gateway.tgi_routes import TgiRoutes
from outrider.api_keys import Permission
from outrider.protocol.errors import InvalidField, OutriderError
from outrider.v1 import generation_pb2


def add_own_routes(app: FastAPI, calls: HttpCalls, tgi: TgiRoutes) -> None:
    """Adds the routes.

    Args:
        app: To add them to.
        calls: Leads from requests to answers.
        tgi: Answers bodies in the shape of TGI.
    """

    @app.post("/generate", openapi_extra=body_in_openapi(GenerateBody, TgiBody))
    async def generate(request: Request) -> Response:
        """Generates from one prompt, as JSON or as server-sent events."""
        caller, body = await calls.read(request, _read)
        if isinstance(body, TgiBody | InvalidField):
            return await tgi.answer(request, caller, body)
        return await _answer(calls, request, caller, body)

    created = int(time.time())

    @app.get("/v1/models")
    async def models(request: Request) -> JSONResponse:
        """Lists the one served model."""
        calls.guard.admit(http_approach(request), Permission.MODELS)
        entry = _model_json(await calls.generation.describe(), created)
        return JSONResponse({"object": "list", "data": [entry]})

    @app.get("/v1/models/{name:path}")
    async def model(request: Request, name: str) -> JSONResponse:
        """The one served model, by its name."""
        calls.guard.admit(http_approach(request), Permission.MODELS)
        served = await calls.generation.describe()
        if name != served.model:
            raise unknown_model(name, served.model)
        return JSONResponse(_model_json(served, created))


def _model_json(model: generation_pb2.GetModelResponse, created: int) -> dict[str, object]:
    return {
        "id": model.model,
        "object": "model",
        "created": created,
        "owned_by": "outrider",
        "context_limit": model.context_limit,
        "vocab_size": model.vocab_size,
        "methods": list(model.methods),
        "default_method": model.default_method,
        "max_nodes": model.max_nodes,
        "max_depth": model.max_depth,
        "has_chat_template": model.has_chat_template,
    }


def _read(data: bytes) -> GenerateBody | TgiBody | InvalidField:
    """A body of either shape; what is wrong with one of TGI's is told in its own shape."""
    value = read_value(data)
    if not is_tgi(value):
        return read_fields(GenerateBody, value)
    try:
        return read_tgi(value)
    except InvalidField as error:
        return error


async def _answer(
    calls: HttpCalls, request: Request, caller: Caller, body: GenerateBody
) -> Response:
    wants_events = body.stream
    if wants_events is None:
        wants_events = "text/event-stream" in request.headers.get("accept", "")
    if body.report_rounds and not wants_events:
        raise InvalidField("report_rounds", "needs stream to be true")
    messages = calls.generate(request, body.to_proto(), caller)
    if wants_events:

        def events(
            first: generation_pb2.GenerateResponse, rest: Messages
        ) -> AsyncGenerator[str, None]:
            return _events(first, rest, body.logprobs)

        return await calls.streamed(request, messages, events)
    answers = [message_json(one, body.logprobs) for one in await calls.whole(request, messages)]
    return JSONResponse(answers[0] if len(answers) == 1 else {"choices": answers})


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
