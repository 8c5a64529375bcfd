"""The OpenAI routes: /v1/chat/completions and /v1/completions. Translates, decides nothing."""

import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from gateway.choices import Messages
from gateway.event_stream import DONE_EVENT
from gateway.generation import Generation
from gateway.http_calls import HttpCalls
from gateway.http_errors import (
    HttpError,
    error_event,
    error_response,
    http_error,
    unknown_model,
)
from gateway.json_body import body_in_openapi, read_json
from gateway.openai_body import ChatBody, CompletionBody, openai_field
from gateway.openai_messages import AnswerShape
from outrider.protocol.errors import InvalidField, OutriderError
from outrider.v1 import generation_pb2

ID_BYTES = 12


def add_openai_routes(app: FastAPI, calls: HttpCalls) -> None:
    """Adds the routes.

    Args:
        app: To add them to.
        calls: Leads from requests to answers.
    """

    async def answer(request: Request, cls: type[ChatBody] | type[CompletionBody]) -> Response:
        try:
            caller, body = await calls.read(request, partial(read_json, cls))
            proto, shape = await _read(calls.generation, body)
            messages = calls.generate(request, proto, caller)
            if body.stream:
                return await calls.streamed(
                    request,
                    messages,
                    lambda first, rest: _events(first, rest, shape, body.includes_usage),
                )
            return JSONResponse(shape.whole(await calls.whole(request, messages)))
        except OutriderError as error:
            return error_response(openai_error(error))

    @app.post("/v1/chat/completions", openapi_extra=body_in_openapi(ChatBody))
    async def chat_completions(request: Request) -> Response:
        """Answers a conversation, in the shapes of the OpenAI API."""
        return await answer(request, ChatBody)

    @app.post("/v1/completions", openapi_extra=body_in_openapi(CompletionBody))
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
        raise unknown_model(body.model, served.model)
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
