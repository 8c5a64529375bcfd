"""Typed errors over gRPC: to a status with google.rpc details, and back on the client's side.

A field at fault travels as BadRequest, a retry hint as RetryInfo and the reason as ErrorInfo, so
that the error a client of the gateway reads is the one that the worker raised.
"""

from datetime import timedelta
from typing import NoReturn, Protocol

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from outrider.protocol.errors import (
    DeadlineExceeded,
    Forbidden,
    InternalFailure,
    InvalidField,
    Mismatch,
    NoCapacity,
    NotSupported,
    OutriderError,
    Unauthenticated,
    WorkerUnavailable,
)

ERROR_DOMAIN = "outrider"  # whose the reasons in ErrorInfo are

_ERRORS: dict[grpc.StatusCode, type[OutriderError]] = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: NoCapacity,
    grpc.StatusCode.UNAVAILABLE: WorkerUnavailable,
    grpc.StatusCode.CANCELLED: WorkerUnavailable,
    grpc.StatusCode.ABORTED: WorkerUnavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.FAILED_PRECONDITION: Mismatch,
    grpc.StatusCode.UNIMPLEMENTED: Mismatch,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Forbidden,
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
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromTimedelta(timedelta(seconds=error.retry_after_s))
        _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
    _pack(status, error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN))
    return status


def error_from_status(error: FailedCall) -> OutriderError:
    """The typed error that a failed call stands for.

    Args:
        error: As raised by a call.

    Returns:
        The error that the server raised, where it told; else the nearest one.
    """
    message = error.details() or error.code().name
    bad_request = error_details_pb2.BadRequest()
    if _unpack(error, bad_request) and bad_request.field_violations:
        violation = bad_request.field_violations[0]
        cls = NotSupported if error.code() is grpc.StatusCode.UNIMPLEMENTED else InvalidField
        return cls(violation.field, violation.description)
    found = _ERRORS.get(error.code(), InternalFailure)(message)
    retry, info = error_details_pb2.RetryInfo(), error_details_pb2.ErrorInfo()
    if _unpack(error, info) and info.domain == ERROR_DOMAIN:
        found.reason = info.reason
    if is_from_server(error):
        has_hint = _unpack(error, retry)
        found.retry_after_s = retry.retry_delay.ToTimedelta().total_seconds() if has_hint else None
    return found


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


def _unpack(error: FailedCall, detail: Message) -> bool:
    """Fills in the detail of its kind; False where the status has none."""
    status = rich_status(error)
    return status is not None and any(packed.Unpack(detail) for packed in status.details)
