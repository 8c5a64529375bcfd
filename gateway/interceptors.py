"""Turns errors of gRPC handlers into statuses: typed ones with their details, others as INTERNAL.

Also answers a message that is no protobuf with INVALID_ARGUMENT. Knows no service.
"""

import logging
from collections.abc import Awaitable, Callable
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
    """Guards all unary-request handlers of a server that are coroutines."""

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
        if handler.unary_unary is not None:
            return handler._replace(
                unary_unary=_guarded(handler.unary_unary), request_deserializer=deserializer
            )
        if handler.unary_stream is not None:
            return handler._replace(
                unary_stream=_guarded(handler.unary_stream), request_deserializer=deserializer
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
    async def guarded(request: Any, context: AbortableContext) -> Any:
        try:
            if isinstance(request, _Malformed):
                raise InvalidField("request", "is not a valid message (broken, or text not UTF-8)")
            return await behavior(request, context)
        except grpc.aio.AbortError:
            raise
        except OutriderError as error:
            await abort(context, error)
        except Exception as error:
            await _fail(context, error)

    return guarded


async def _fail(context: AbortableContext, error: Exception) -> NoReturn:
    _logger.error("a gRPC handler failed unexpectedly: %s", origin(error))
    await abort(context, InternalFailure("internal error"))
