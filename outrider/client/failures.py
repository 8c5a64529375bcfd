"""What a failed call becomes: the typed error that the service raised, and when to try again."""

from google.rpc import error_details_pb2

from outrider.grpc_status import FailedCall, error_from_status, rich_status
from outrider.protocol.errors import ErrorCode, OutriderError


class ServiceUnreachable(OutriderError):
    """No service answers at the address, or the connection to it broke."""

    code = ErrorCode.UNAVAILABLE


def failure_of(call: FailedCall, address: str) -> OutriderError:
    """The error of a failed call.

    Args:
        call: As raised by gRPC, of either kind of channel.
        address: Where it went.
    """
    status = rich_status(call)
    if status is None and call.code().name == ErrorCode.UNAVAILABLE.value:
        return ServiceUnreachable(f"no service answers at {address}: {call.details()}")
    error = error_from_status(call)
    for detail in status.details if status is not None else ():
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            error.retry_after_s = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
    return error
