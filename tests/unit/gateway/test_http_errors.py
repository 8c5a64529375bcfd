"""Errors over HTTP: the status, the shape and the headers of each kind."""

import json

import pytest

from gateway.http_errors import error_response, http_error
from outrider.protocol.errors import (
    DeadlineExceeded,
    Draining,
    Forbidden,
    InvalidField,
    OutriderError,
    QueueFull,
    QuotaSpent,
    RateLimited,
    Unauthenticated,
)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "retry"),
    [
        (InvalidField("n", "is bad"), 400, "invalid_request_error", "invalid_argument", None),
        (Unauthenticated("who?"), 401, "authentication_error", "unauthenticated", None),
        (Forbidden("not this"), 403, "permission_error", "permission_denied", None),
        (QueueFull("full"), 429, "overloaded_error", "queue_full", "1"),
        (RateLimited("x", retry_after_s=2.1), 429, "overloaded_error", "rate_limit_exceeded", "3"),
        (RateLimited("x", retry_after_s=0.0), 429, "overloaded_error", "rate_limit_exceeded", "1"),
        (QuotaSpent("no more"), 429, "overloaded_error", "insufficient_quota", None),
        (Draining("going"), 503, "server_error", "draining", "1"),
        (DeadlineExceeded("late"), 504, "server_error", "deadline_exceeded", None),
    ],
)
def test_the_whole_answer(
    error: OutriderError, status: int, kind: str, code: str, retry: str | None
) -> None:
    response = error_response(http_error(error))
    told = json.loads(bytes(response.body))["error"]
    assert (response.status_code, told["type"], told["code"]) == (status, kind, code)
    assert response.headers.get("Retry-After") == retry
    assert ("WWW-Authenticate" in response.headers) == (status == 401)
    assert told["param"] == ("n" if status == 400 else None)
