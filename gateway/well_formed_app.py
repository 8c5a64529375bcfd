"""Refuses HTTP requests that no route should see: what can be read in two ways, or is too much.

Knows no routes. What is not HTTP at all never gets here: `http_connection.py` answers that.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http_errors import HttpError, error_response

MAX_HEADERS = 100
MAX_HEADER_BYTES = 64 * 2**10


class WellFormedApp:
    """An application that gets well-formed requests only.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        error = _fault(scope["http_version"], scope["headers"])
        if error is None:
            await self._app(scope, receive, send)
            return
        response = error_response(error)
        response.headers["Connection"] = "close"  # where its body ends, nobody can say
        await response(scope, receive, send)


def _fault(version: str, headers: list[tuple[bytes, bytes]]) -> HttpError | None:
    if version not in ("1.0", "1.1"):
        return HttpError(505, "unknown_version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
    if len(headers) > MAX_HEADERS:
        text = f"a request may have {MAX_HEADERS} headers, got {len(headers)}"
        return HttpError(431, "too_many_headers", text)
    if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        text = f"the headers may have {MAX_HEADER_BYTES} bytes together"
        return HttpError(431, "headers_too_large", text)
    names = {name for name, _ in headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        # One of two servers in a row may believe the one, and the other the other.
        text = "Content-Length and Transfer-Encoding say two things about one body; send one"
        return HttpError(400, "ambiguous_body", text)
    return None
