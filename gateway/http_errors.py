"""Errors over HTTP: `{"error": {message, type, param, code}}` and the status of each kind."""

import json
import math
from typing import Any

from starlette.responses import JSONResponse

from outrider.protocol.errors import ErrorCode, InvalidField, OutriderError

STATUS_OF_CODE = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.FAILED_PRECONDITION: 400,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.RESOURCE_EXHAUSTED: 429,
    ErrorCode.INTERNAL: 500,
    ErrorCode.UNIMPLEMENTED: 501,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.DEADLINE_EXCEEDED: 504,
}
CLIENT_CLOSED_REQUEST = 499
MAX_SHOWN_CHARS = 256

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "overloaded_error"}


class HttpError(Exception):
    """A refusal that only HTTP knows.

    Args:
        status: HTTP status.
        code: Short name for programs.
        message: For people.
        param: The field at fault, if one is.
        retry_after_s: When trying again may help, seconds; None: no time is known.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


def http_error(error: OutriderError) -> HttpError:
    """The HTTP form of a typed error."""
    param = _http_field(error.field) if isinstance(error, InvalidField) else None
    message = error.message
    if isinstance(error, InvalidField) and param is not None:
        message = f"{param}: {error.message.removeprefix(f'{error.field}: ')}"
    status = STATUS_OF_CODE[error.code]
    return HttpError(status, error.reason.lower(), message, param, error.retry_after_s)


def unknown_model(name: str, served: str) -> HttpError:
    """Somebody asks for a model that is not here.

    Args:
        name: Of it, up to MAX_SHOWN_CHARS of which are shown.
        served: Name of the one that is.
    """
    text = f"model: {name[:MAX_SHOWN_CHARS]!r} is not served here; {served!r} is"
    return HttpError(404, "model_not_found", text, "model")


def error_body(error: HttpError) -> dict[str, Any]:
    """The JSON body of an error."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {
        "error": {
            "message": error.message,
            "type": _TYPES.get(error.status, kind),
            "param": error.param,
            "code": error.code,
        }
    }


def error_response(error: HttpError) -> JSONResponse:
    """The whole answer of a request that failed before its first message."""
    return JSONResponse(error_body(error), status_code=error.status, headers=error_headers(error))


def error_headers(error: HttpError) -> dict[str, str]:
    """Headers of such an answer, in whatever shape its body is."""
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status == STATUS_OF_CODE[ErrorCode.UNAUTHENTICATED]:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in (408, 413, 415):
        headers["Connection"] = "close"  # the rest of the body is not read
    return headers


def error_event(error: HttpError) -> str:
    """The server-sent event of a stream that failed after it began."""
    return f"data: {json.dumps(error_body(error))}\n\n"


def _http_field(field: str) -> str:
    """The path in the JSON body, which is flatter than the protobuf message."""
    return field.replace("token_ids.ids", "token_ids").replace("chat.messages", "chat")
