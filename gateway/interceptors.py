"""Turns errors of gRPC handlers into statuses: typed ones with their details, others as INTERNAL.

Also answers a message that is no protobuf with INVALID_ARGUMENT. Knows no service.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from outrider.grpc_status import AbortableContext, abort
from outrider.protocol.errors import InternalFailure, InvalidField, OutriderError
from outrider.telemetry.logging import origin

_logger = logging.getLogger(__name__)

Handler = Any  # grpc.RpcMethodHandler with its fields, which the stubs do not declare
Behavior = Callable[[Any, Any], Awaitable[Any]]


class _Malformed:
    """Stands for a message that could not be read."""


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Guards all handlers of a server: coroutines of one request, and generators of many."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Wraps the handler's behaviour and its deserialiser."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        deserializer = _tolerant(handler.request_deserializer)
        if handler.stream_stream is not None:
            return handler._replace(
                stream_stream=_guarded_stream(handler.stream_stream),
                request_deserializer=deserializer,
            )
        # As a stream of requests, of which the first is read here: where a client ends without
        # one, the runtime would leave the call open for ever.
        behaviors = {"unary_unary": "stream_unary", "unary_stream": "stream_stream"}
        for one, many in behaviors.items():
            behavior = getattr(handler, one)
            if behavior is not None:
                changes = {one: None, many: _guarded(behavior)}
                return handler._replace(
                    request_streaming=True, request_deserializer=deserializer, **changes
                )
        return handler


def _tolerant(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def deserialize(data: bytes) -> Any:
        try:
            return deserializer(data)
        except (DecodeError, RecursionError):
            return _Malformed()

    return deserialize


def _guarded(behavior: Behavior) -> Behavior:
    async def guarded(_: Any, context: Any) -> Any:
        try:
            return await behavior(_checked(await context.read()), context)
        except Exception as error:
            await _end(context, error)

    return guarded


def _guarded_stream(behavior: Callable[[Any, Any], AsyncIterator[Any]]) -> Behavior:
    async def checked(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            yield _checked(request)

    async def guarded(requests: AsyncIterator[Any], context: Any) -> Any:
        try:
            async for response in behavior(checked(requests), context):
                yield response
        except Exception as error:
            await _end(context, error)

    return guarded


def _checked(request: Any) -> Any:
    if request is grpc.aio.EOF:
        raise InvalidField("request", "is missing: the call ended without a message")
    if isinstance(request, _Malformed):
        raise InvalidField("request", "is not a valid message (broken, or text not UTF-8)")
    return request


async def _end(context: AbortableContext, error: Exception) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, OutriderError):
        await abort(context, error)
    await _fail(context, error)


async def _fail(context: AbortableContext, error: Exception) -> NoReturn:
    _logger.error("a gRPC handler failed unexpectedly: %s", origin(error))
    await abort(context, InternalFailure("internal error"))
