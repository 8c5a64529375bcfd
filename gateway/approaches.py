"""How a call of either protocol came in. Believes nothing of it: `guard.py` decides."""

from typing import Any

from starlette.requests import Request

from gateway.client_address import grpc_peer_host
from gateway.guard import Approach

AUTHORIZATION = "authorization"
FORWARDED_FOR = "x-forwarded-for"


def http_approach(request: Request) -> Approach:
    """Of an HTTP request."""
    return Approach(
        request.headers.get(AUTHORIZATION, ""),
        request.client.host if request.client is not None else "",
        ",".join(request.headers.getlist(FORWARDED_FOR)),
    )


def grpc_approach(context: Any) -> Approach:
    """Of a gRPC call.

    Args:
        context: Of its servicer.
    """
    return Approach(
        grpc_metadata(context, AUTHORIZATION),
        grpc_peer_host(context.peer()),
        ",".join(_texts(context, FORWARDED_FOR)),
    )


def grpc_metadata(context: Any, name: str) -> str:
    """The first text of that name; "" where there is none."""
    return next(iter(_texts(context, name)), "")


def _texts(context: Any, name: str) -> list[str]:
    metadata = context.invocation_metadata() or ()
    return [value for key, value in metadata if key == name and isinstance(value, str)]
