"""Typed errors that cross a boundary: what went wrong, whose fault it was, and which field.

Knows nothing of gRPC or HTTP: `outrider/grpc_status.py` and the gateway's HTTP layer translate.
"""

from enum import Enum


class ErrorCode(Enum):
    """Kinds of failure, named after the gRPC status each one becomes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    NOT_FOUND = "NOT_FOUND"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    UNAVAILABLE = "UNAVAILABLE"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    INTERNAL = "INTERNAL"


class OutriderError(Exception):
    """A failure that belongs to one request and may be shown to its client.

    Args:
        message: What happened and what to do, for the client to read.
    """

    code = ErrorCode.INTERNAL
    retry_after_s: float | None = None  # set by a client whose service named a time

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Unauthenticated(OutriderError):
    """Nobody that may ask."""

    code = ErrorCode.UNAUTHENTICATED


class InvalidField(OutriderError):
    """A field of a request or message breaks a rule.

    Args:
        field: Path of the field as the client wrote it, such as `sampling.top_p`.
        message: The rule, with the allowed range and the value given.
    """

    code = ErrorCode.INVALID_ARGUMENT

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


class NotSupported(InvalidField):
    """A field asks for something this version does not do."""

    code = ErrorCode.UNIMPLEMENTED


class NoCapacity(OutriderError):
    """There is no room now; trying again later may help."""

    code = ErrorCode.RESOURCE_EXHAUSTED


class WorkerUnavailable(OutriderError):
    """A worker that the request needs does not answer."""

    code = ErrorCode.UNAVAILABLE


class DeadlineExceeded(OutriderError):
    """The request's time ran out before it ended."""

    code = ErrorCode.DEADLINE_EXCEEDED


class Mismatch(OutriderError):
    """Two processes were started for different models or protocol versions."""

    code = ErrorCode.FAILED_PRECONDITION


class InternalFailure(OutriderError):
    """Something broke on our side; only this request is affected."""

    code = ErrorCode.INTERNAL


class BadFrame(Exception):
    """Bytes from a peer that are not one of our messages. The peer's fault, and never a crash."""


class BadGrammar(Exception):
    """A grammar that cannot be used, or tokens that do not fit it; the message says why."""
