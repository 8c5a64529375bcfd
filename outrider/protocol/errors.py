"""Typed errors that cross a boundary: what went wrong, whose fault it was, and which field.

Knows nothing of gRPC or HTTP: `outrider/grpc_status.py` and the gateway's HTTP layer translate.
"""

from enum import Enum


class ErrorCode(Enum):
    """Kinds of failure, named after the gRPC status each one becomes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
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
        retry_after_s: When trying again may help, seconds; None: what the class says.
    """

    code = ErrorCode.INTERNAL
    reason: str = ""  # a finer name than the code's, for programs; "": there is none
    retry_after_s: float | None = None

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.reason = self.reason or self.code.value
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class Unauthenticated(OutriderError):
    """Nobody that may ask."""

    code = ErrorCode.UNAUTHENTICATED


class Forbidden(OutriderError):
    """Somebody known, who may not ask for this."""

    code = ErrorCode.PERMISSION_DENIED


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
    retry_after_s: float | None = 1.0


class QueueFull(NoCapacity):
    """So many requests wait that one more may not."""

    reason = "QUEUE_FULL"


class WaitTooLong(NoCapacity):
    """The request's deadline would pass before its turn came."""

    reason = "WAIT_TOO_LONG"


class RateLimited(NoCapacity):
    """Whoever asks has used up what a minute brings."""

    reason = "RATE_LIMIT_EXCEEDED"


class QuotaSpent(NoCapacity):
    """Whoever asks has used up all the tokens it was given."""

    reason = "INSUFFICIENT_QUOTA"
    retry_after_s: float | None = None


class SlowReader(NoCapacity):
    """The client does not read its own answer, and must not hold what others wait for."""

    reason = "SLOW_READER"
    retry_after_s: float | None = None

    @classmethod
    def after(cls, seconds: float) -> "SlowReader":
        """Of a client that read nothing for so long."""
        return cls(f"the client read nothing of its answer for {seconds:g} s")


class WorkerUnavailable(OutriderError):
    """A worker that the request needs does not answer."""

    code = ErrorCode.UNAVAILABLE
    retry_after_s: float | None = 1.0


class Draining(WorkerUnavailable):
    """This process is about to end and takes nothing new."""

    reason = "DRAINING"


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
