"""What a failed call becomes: the typed error that the service raised, and when to try again."""

from outrider.grpc_status import FailedCall, error_from_status, is_from_server
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
    if not is_from_server(call) and call.code().name == ErrorCode.UNAVAILABLE.value:
        return ServiceUnreachable(f"no service answers at {address}: {call.details()}")
    return error_from_status(call)
