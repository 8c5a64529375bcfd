"""The OpenAI routes: /v1/chat/completions and /v1/completions. Translates, decides nothing."""

import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from gateway.approaches import http_approach
from gateway.body_reader import parsed, read_json_bytes
from gateway.choices import Messages
from gateway.event_stream import DONE_EVENT, EventStream
from gateway.generation import Generation
from gateway.guard import Guard
from gateway.http_errors import HttpError, error_event, error_response, http_error
from gateway.http_messages import collected_choices
from gateway.json_body import read_json
from gateway.openai_body import ChatBody, CompletionBody, openai_field
from gateway.openai_messages import AnswerShape
from gateway.waiting import first_of, unless_gone
from outrider.api_keys import Permission
from outrider.protocol.errors import InvalidField, OutriderError
from outrider.v1 import generation_pb2

ID_BYTES = 12


def add_openai_routes(
    app: FastAPI,
    generation: Generation,
    max_request_bytes: int,
    guard: Guard,
    read_timeout_s: float,
) -> None:
    """Adds the routes.

    Args:
        app: To add them to.
        generation: Answers requests.
        max_request_bytes: Largest body.
        guard: Lets callers in.
        read_timeout_s: How long a client may read nothing of its answer, seconds.
    """

    async def answer(request: Request, cls: type[ChatBody] | type[CompletionBody]) -> Response:
        try:
            caller = guard.admit(http_approach(request), Permission.GENERATE)
            data = await read_json_bytes(request, max_request_bytes)
            body = await parsed(partial(read_json, cls), data)
            proto, shape = await _read(generation, body)
            trace = request.headers.get("traceparent", "")
            messages = generation.generate(proto, None, trace, caller)
            if body.stream:
                first = await unless_gone(request, first_of(messages))
                events = _events(first, messages, shape, body.includes_usage)
                return EventStream(events, messages, read_timeout_s)
            wholes = await unless_gone(request, collected_choices(messages))
            return JSONResponse(shape.whole(wholes))
        except OutriderError as error:
            return error_response(openai_error(error))

    @app.post("/v1/chat/completions")
    async def chat_completions(request: Request) -> Response:
        """Answers a conversation, in the shapes of the OpenAI API."""
        return await answer(request, ChatBody)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        """Continues a text, in the shapes of the OpenAI API."""
        return await answer(request, CompletionBody)


def openai_error(error: OutriderError) -> HttpError:
    """The HTTP form of a typed error; a field has its OpenAI name."""
    if isinstance(error, InvalidField):
        reason = error.message.removeprefix(f"{error.field}: ")
        error = type(error)(openai_field(error.field), reason)
    return http_error(error)


async def _read(
    generation: Generation, body: ChatBody | CompletionBody
) -> tuple[generation_pb2.GenerateRequest, AnswerShape]:
    served = await generation.describe()
    if body.model != served.model:
        text = f"model: {body.model!r} is not served here; {served.model!r} is"
        raise HttpError(404, "model_not_found", text, "model")
    proto = body.to_proto()
    is_chat = isinstance(body, ChatBody)
    return proto, AnswerShape(
        id=("chatcmpl-" if is_chat else "cmpl-") + os.urandom(ID_BYTES).hex(),
        created=int(time.time()),
        model=served.model,
        is_chat=is_chat,
        wants_log_probs=proto.logprobs,
        pieces=generation.pieces,
    )


async def _events(
    first: generation_pb2.GenerateResponse,
    messages: Messages,
    shape: AnswerShape,
    includes_usage: bool,
) -> AsyncGenerator[str, None]:
    begun: set[int] = set()
    lasts: list[generation_pb2.GenerateResponse] = []

    def framed(message: generation_pb2.GenerateResponse) -> str:
        events = ""
        if shape.is_chat and message.choice not in begun:
            begun.add(message.choice)
            events = _event(shape.opening(message.choice))
        if message.finish_reason:
            lasts.append(message)
        return events + _event(shape.chunk(message))

    async with aclosing(messages):
        yield framed(first)
        try:
            async for message in messages:
                yield framed(message)
        except OutriderError as error:
            yield error_event(openai_error(error))
            return
        if includes_usage:
            yield _event(shape.usage_chunk(lasts))
        yield DONE_EVENT


def _event(fields: dict[str, object]) -> str:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n"
