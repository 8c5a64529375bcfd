"""Failed calls as typed errors."""

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2

from outrider.client.failures import ServiceUnreachable, failure_of
from outrider.grpc_status import to_rich_status
from outrider.protocol.errors import (
    DeadlineExceeded,
    InvalidField,
    NoCapacity,
    OutriderError,
    Unauthenticated,
    WorkerUnavailable,
)
from tests.unit.test_grpc_status import bare_call, failed_call


@pytest.mark.parametrize(
    "error",
    [
        InvalidField("limits.stop[1]", "must have 1 to 256 bytes"),
        Unauthenticated("an API key is needed"),
        WorkerUnavailable("no draft worker answers"),
    ],
)
def test_the_services_own_error(error: OutriderError) -> None:
    found = failure_of(failed_call(error), "a:1")
    assert type(found) is type(error)
    assert (found.message, found.retry_after_s) == (error.message, error.retry_after_s)
    assert getattr(found, "field", None) == getattr(error, "field", None)


def test_when_to_try_again() -> None:
    status = to_rich_status(NoCapacity("full"))
    del status.details[:]
    detail = any_pb2.Any()
    delay = duration_pb2.Duration(seconds=2, nanos=500_000_000)
    detail.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    status.details.append(detail)
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    call = grpc.aio.AioRpcError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.aio.Metadata(), trailing, status.message
    )
    error = failure_of(call, "a:1")
    assert (type(error), error.retry_after_s) == (NoCapacity, 2.5)


def test_nobody_there() -> None:
    error = failure_of(bare_call(grpc.StatusCode.UNAVAILABLE, "refused"), "a:1")
    assert type(error) is ServiceUnreachable
    assert error.message == "no service answers at a:1: refused"


def test_a_deadline_of_our_own() -> None:
    error = failure_of(bare_call(grpc.StatusCode.DEADLINE_EXCEEDED), "a:1")
    assert type(error) is DeadlineExceeded
