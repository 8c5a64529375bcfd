"""Typed errors over gRPC: to a status with google.rpc details, and back on the client's side.

A field at fault travels as BadRequest, a retry hint as RetryInfo, so that the error a client of the
gateway reads is the one that the worker raised.
"""

from typing import NoReturn, Protocol

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from outrider.protocol.errors import (
    DeadlineExceeded,
    ErrorCode,
    InternalFailure,
    InvalidField,
    Mismatch,
    NoCapacity,
    NotSupported,
    OutriderError,
    Unauthenticated,
    WorkerUnavailable,
)

RETRY_DELAY_S = 1  # what NoCapacity tells clients to wait

_ERRORS: dict[grpc.StatusCode, type[OutriderError]] = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: NoCapacity,
    grpc.StatusCode.UNAVAILABLE: WorkerUnavailable,
    grpc.StatusCode.CANCELLED: WorkerUnavailable,
    grpc.StatusCode.ABORTED: WorkerUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.FAILED_PRECONDITION: Mismatch,
    grpc.StatusCode.UNIMPLEMENTED: Mismatch,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
}


class AbortableContext(Protocol):
    """The part of a servicer context that ends a call."""

    async def abort(
        self,
        code: grpc.StatusCode,
        details: str = "",
        trailing_metadata: tuple[tuple[str, str | bytes], ...] = (),
    ) -> NoReturn:
        """Ends the call with a status by raising."""


class FailedCall(Protocol):
    """The part of a failed call that says why, of either kind of channel."""

    def code(self) -> grpc.StatusCode:
        """Its status."""

    def details(self) -> str | None:
        """The text with it."""


async def abort(context: AbortableContext, error: OutriderError) -> NoReturn:
    """Ends a call with the status of an error.

    Args:
        context: Of the call.
        error: What the client is told.

    Raises:
        grpc.aio.AbortError: Always; it must reach the gRPC runtime.
    """
    status = rpc_status.to_status(to_rich_status(error))
    await context.abort(status.code, status.details, status.trailing_metadata)


def to_rich_status(error: OutriderError) -> status_pb2.Status:
    """The google.rpc.Status of an error, with its details."""
    status = status_pb2.Status(
        code=grpc.StatusCode[error.code.value].value[0], message=error.message
    )
    if isinstance(error, InvalidField):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=error.message.removeprefix(f"{error.field}: ")
        )
        _pack(status, error_details_pb2.BadRequest(field_violations=[violation]))
    elif error.code is ErrorCode.RESOURCE_EXHAUSTED:
        delay = duration_pb2.Duration(seconds=RETRY_DELAY_S)
        _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def error_from_status(error: FailedCall) -> OutriderError:
    """The typed error that a failed call stands for.

    Args:
        error: As raised by a call.

    Returns:
        The error that the server raised, where it told; else the nearest one.
    """
    message = error.details() or error.code().name
    violation = _first_violation(error)
    if violation is not None:
        cls = NotSupported if error.code() is grpc.StatusCode.UNIMPLEMENTED else InvalidField
        return cls(violation.field, violation.description)
    return _ERRORS.get(error.code(), InternalFailure)(message)


def is_from_server(error: FailedCall) -> bool:
    """True where the server itself answered with this status, False where none was reached."""
    return rich_status(error) is not None


def _pack(status: status_pb2.Status, detail: Message) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def rich_status(error: FailedCall) -> status_pb2.Status | None:
    """What the server itself said; None where it said nothing, or none was reached."""
    try:
        return rpc_status.from_call(error)
    except ValueError:  # details that contradict the status
        return None


def _first_violation(error: FailedCall) -> error_details_pb2.BadRequest.FieldViolation | None:
    status = rich_status(error)
    for detail in status.details if status is not None else ():
        bad_request = error_details_pb2.BadRequest()
        if detail.Unpack(bad_request) and bad_request.field_violations:
            return bad_request.field_violations[0]
    return None
