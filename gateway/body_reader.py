"""Reads the bytes of an HTTP request body: right kind, bounded in size and in time.

Knows nothing of what is in it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from gateway.http_errors import HttpError
from gateway.waiting import ClientGone

THREAD_BYTES = 4096  # a larger body is parsed in a thread, so that streams go on meanwhile
DISCARD_BYTES = 16 * 2**20  # read and thrown away of a body that is too large

T = TypeVar("T")

# Few at a time: what is parsed takes twenty times the memory of what was sent.
_parsers = ThreadPoolExecutor(2, "parse-body")


async def parsed(parse: Callable[[bytes], T], data: bytes) -> T:
    """What a body says.

    Args:
        parse: Reads it; must be safe to call from a thread.
        data: The body.
    """
    if len(data) < THREAD_BYTES:
        return parse(data)
    return await asyncio.get_running_loop().run_in_executor(_parsers, parse, data)


async def read_json_bytes(request: Request, max_bytes: int, timeout_s: float) -> bytes:
    """The whole body.

    Args:
        request: Its body has not been read yet.
        max_bytes: Largest body.
        timeout_s: How long the client may take to send it, seconds.

    Returns:
        Bytes that are said to be JSON in UTF-8.

    Raises:
        HttpError: 415, 413, or 408 where the client takes longer.
        ClientGone: It closed the connection in the middle of its body.
    """
    _check_content_type(request.headers.get("content-type", ""))
    try:
        async with asyncio.timeout(timeout_s):
            return await _read_limited(request, max_bytes)
    except TimeoutError:
        text = f"the body did not arrive within {timeout_s:g} s"
        raise HttpError(408, "request_timeout", text) from None
    except ClientDisconnect:
        raise ClientGone from None


def _check_content_type(value: str) -> None:
    kind, *parameters = (part.strip().lower() for part in value.split(";"))
    charsets = [part.split("=", 1)[1] for part in parameters if part.startswith("charset=")]
    if kind != "application/json" or any(c.strip('"') not in ("utf-8", "utf8") for c in charsets):
        raise HttpError(
            415, "unsupported_media_type", "the content type must be application/json in UTF-8"
        )


async def _read_limited(request: Request, max_bytes: int) -> bytes:
    too_large = HttpError(413, "request_too_large", f"the body must be at most {max_bytes} bytes")
    declared = request.headers.get("content-length", "")
    if "expect" in request.headers and declared.isdecimal() and int(declared) > max_bytes:
        raise too_large  # the client asked before it sent
    body = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= max_bytes:
            body += chunk
        elif size > max_bytes + DISCARD_BYTES:
            raise too_large
    if size > max_bytes:
        # Only now: to close on a client that still writes would take the answer away from it.
        raise too_large
    return bytes(body)
