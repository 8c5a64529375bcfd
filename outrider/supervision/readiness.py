"""Whether the gateway serves: its `GET /health`, asked until it says yes.

A few lines of HTTP on a socket of the event loop; a client library would be the larger part of the
supervisor's memory.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Final, NamedTuple

ASK_TIMEOUT_S: Final = 2.0
INTERVAL_S: Final = 0.1


class Health(NamedTuple):
    """One answer: serving or not, and the gateway's own reason, "" where it gives none."""

    is_serving: bool
    reason: str


async def ask_health(host: str, port: int) -> Health:
    """Asks once; a gateway that does not answer is not serving."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                request = (
                    f"GET /health HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
                )
                writer.write(request.encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return Health(False, "")
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    return Health(status == [b"200"], _reason(body))


async def wait_until_serving(
    host: str, port: int, on_reason: Callable[[str], None], interval_s: float = INTERVAL_S
) -> None:
    """Asks until the gateway serves.

    Args:
        host: Of its HTTP listener.
        port: Of its HTTP listener.
        on_reason: Called with each reason not to serve.
        interval_s: Between two questions.
    """
    while True:
        health = await ask_health(host, port)
        if health.is_serving:
            return
        if health.reason:
            on_reason(health.reason)
        await asyncio.sleep(interval_s)


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["reason"])
    except (ValueError, KeyError, TypeError):
        return ""
