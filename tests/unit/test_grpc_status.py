"""Typed errors over gRPC, there and back."""

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.grpc_status import ERROR_DOMAIN, error_from_status, is_from_server, to_rich_status
from outrider.protocol.errors import (
    DeadlineExceeded,
    Draining,
    Forbidden,
    InternalFailure,
    InvalidField,
    Mismatch,
    NoCapacity,
    NotSupported,
    OutriderError,
    QuotaSpent,
    RateLimited,
    Unauthenticated,
    WorkerUnavailable,
)


def failed_call(error: OutriderError) -> grpc.aio.AioRpcError:
    """What a client of a server that aborted with this error sees."""
    status = to_rich_status(error)
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, status.message)


def bare_call(code: grpc.StatusCode, details: str = "words") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@pytest.mark.parametrize(
    "error",
    [
        InvalidField("limits.stop[1]", "must have 1 to 256 bytes: got 0"),
        NotSupported("sampling.logit_bias", "is not supported"),
        NoCapacity("full"),
        WorkerUnavailable("gone"),
        DeadlineExceeded("late"),
        Mismatch("two models"),
        InternalFailure("broken"),
        Unauthenticated("who?"),
        Forbidden("not this"),
    ],
)
def test_an_error_comes_back_as_it_was(error: OutriderError) -> None:
    call = failed_call(error)
    back = error_from_status(call)
    assert type(back) is type(error)
    assert back.message == error.message
    assert getattr(back, "field", None) == getattr(error, "field", None)
    assert is_from_server(call)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, WorkerUnavailable),
        (grpc.StatusCode.CANCELLED, WorkerUnavailable),
        (grpc.StatusCode.UNIMPLEMENTED, Mismatch),
        (grpc.StatusCode.UNKNOWN, InternalFailure),
        (grpc.StatusCode.INVALID_ARGUMENT, InternalFailure),
    ],
)
def test_a_status_without_details_becomes_the_nearest_error(
    code: grpc.StatusCode, kind: type[OutriderError]
) -> None:
    error = error_from_status(bare_call(code))
    assert type(error) is kind
    assert error.message == "words"
    assert not is_from_server(bare_call(code))


@pytest.mark.parametrize(
    ("error", "reason", "retry_s"),
    [
        (NoCapacity("full"), "RESOURCE_EXHAUSTED", 1.0),
        (RateLimited("slowly", retry_after_s=2.5), "RATE_LIMIT_EXCEEDED", 2.5),
        (QuotaSpent("no more"), "INSUFFICIENT_QUOTA", None),
        (Draining("going"), "DRAINING", 1.0),
        (InternalFailure("broken"), "INTERNAL", None),
    ],
)
def test_reason_and_time_to_try_again_travel(
    error: OutriderError, reason: str, retry_s: float | None
) -> None:
    details = {d.type_url.rpartition(".")[2]: d for d in to_rich_status(error).details}
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert details["ErrorInfo"].Unpack(info)
    assert (info.reason, info.domain) == (reason, ERROR_DOMAIN)
    assert ("RetryInfo" in details) == (retry_s is not None)
    if retry_s is not None:
        assert details["RetryInfo"].Unpack(retry)
        assert retry.retry_delay.ToTimedelta().total_seconds() == retry_s
    back = error_from_status(failed_call(error))
    assert (back.reason, back.retry_after_s) == (reason, retry_s)


def test_details_that_contradict_the_status_are_ignored() -> None:
    status = to_rich_status(NoCapacity("full"))
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    call = grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), trailing, "other words"
    )
    assert type(error_from_status(call)) is WorkerUnavailable
