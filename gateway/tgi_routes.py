"""Routes in the shape of Text Generation Inference. Translates, decides nothing."""

import json
import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from importlib.metadata import version

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.approaches import http_approach
from gateway.choices import Messages
from gateway.guard import Caller
from gateway.http_calls import HttpCalls
from gateway.http_errors import HttpError, error_headers, http_error
from gateway.json_body import body_in_openapi, read_value
from gateway.requests import MAX_STOP_STRINGS
from gateway.tgi_body import TgiBody, read_tgi, tgi_field
from gateway.tgi_messages import (
    TgiAnswer,
    TgiVocabulary,
    tgi_error_body,
    tgi_error_status,
    tgi_info,
)
from outrider.api_keys import Permission
from outrider.protocol.errors import InvalidField, OutriderError
from outrider.v1 import generation_pb2

SEED_BYTES = 8


class TgiRoutes:
    """Answers bodies of that shape; their errors have it too.

    Args:
        calls: Leads from requests to answers.
    """

    def __init__(self, calls: HttpCalls) -> None:
        self._calls = calls

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes, `/generate` excepted: it is shared with this service's own shape."""

        @app.post("/generate_stream", openapi_extra=body_in_openapi(TgiBody))
        async def generate_stream(request: Request) -> Response:
            """Generates from one prompt, with an event for each token, in the shape of TGI."""
            return await self._contained(self._read_and_answer(request, always_streams=True))

        @app.post("/", openapi_extra=body_in_openapi(TgiBody))
        async def compatible(request: Request) -> Response:
            """The same as JSON, or as events where `stream` is true; what clients of TGI call."""
            return await self._contained(self._read_and_answer(request, always_streams=False))

        @app.get("/info")
        async def info(request: Request) -> Response:
            """What is served, in the shape of TGI."""
            return await self._contained(self._info(request))

    async def answer(
        self, request: Request, caller: Caller, body: TgiBody | InvalidField
    ) -> Response:
        """Answers a body of /generate.

        Args:
            request: That it came with.
            caller: Who asks.
            body: What is asked, or what is wrong with it.
        """

        async def work() -> Response:
            if isinstance(body, InvalidField):
                raise body
            return await self._answer(request, caller, body, bool(body.stream))

        return await self._contained(work())

    async def _read_and_answer(self, request: Request, always_streams: bool) -> Response:
        caller, body = await self._calls.read(request, lambda data: read_tgi(read_value(data)))
        if always_streams:
            if body.stream is False:
                raise InvalidField("stream", "must be true here; /generate answers in one piece")
            return await self._answer(request, caller, body, streams=True)
        return await self._answer(request, caller, body, bool(body.stream), is_listed=True)

    async def _answer(
        self,
        request: Request,
        caller: Caller,
        body: TgiBody,
        streams: bool,
        is_listed: bool = False,
    ) -> Response:
        generation = self._calls.generation
        proto = body.to_proto(int.from_bytes(os.urandom(SEED_BYTES), "big"), streams=streams)
        eos_token_ids = frozenset((await generation.describe()).eos_token_ids)
        answer = TgiAnswer(
            TgiVocabulary(generation.pieces, generation.special_tokens, eos_token_ids),
            body.inputs if body.asked.return_full_text else "",
            body.asked.details,
            proto.sampling.seed if proto.sampling.HasField("seed") else None,
        )
        messages = self._calls.generate(request, proto, caller)
        try:
            if streams:
                return await self._calls.streamed(
                    request, messages, lambda first, rest: _events(first, rest, answer)
                )
            (whole,) = await self._calls.whole(request, messages)
        except InvalidField as error:
            raise _renamed(error) from None
        told = answer.whole(whole)
        return JSONResponse([told] if is_listed else told)

    async def _info(self, request: Request) -> Response:
        self._calls.guard.admit(http_approach(request), Permission.MODELS)
        model = await self._calls.generation.describe()
        return JSONResponse(tgi_info(model, MAX_STOP_STRINGS, version("outrider")))

    async def _contained(self, work: Awaitable[Response]) -> Response:
        try:
            return await work
        except OutriderError as error:
            refusal = http_error(error)
        except HttpError as error:
            refusal = error
        return JSONResponse(
            tgi_error_body(refusal), tgi_error_status(refusal), error_headers(refusal)
        )


def _renamed(error: InvalidField) -> InvalidField:
    """An error of the request that gRPC carries: its field has another name in these bodies."""
    reason = error.message.removeprefix(f"{error.field}: ")
    return type(error)(tgi_field(error.field), reason)


async def _events(
    first: generation_pb2.GenerateResponse, messages: Messages, answer: TgiAnswer
) -> AsyncGenerator[str, None]:
    async with aclosing(messages):
        for event in answer.events(first):
            yield _framed(event)
        try:
            async for message in messages:
                for event in answer.events(message):
                    yield _framed(event)
        except OutriderError as error:
            yield _framed(tgi_error_body(http_error(error)))


def _framed(fields: object) -> str:
    return f"data:{json.dumps(fields, ensure_ascii=False)}\n\n"
