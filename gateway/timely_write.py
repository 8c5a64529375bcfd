"""Sends a message of a gRPC stream to a client that has to read it in time."""

import asyncio
from typing import Any

import grpc

from gateway.choices import Messages
from outrider.protocol.errors import SlowReader


async def write_in_time(context: Any, message: object, stream: Messages, timeout_s: float) -> bool:
    """Sends a message.

    Args:
        context: Of the call.
        message: What to send.
        stream: What it was made of; told where the client does not read.
        timeout_s: How long the client may read nothing, seconds.

    Returns:
        False where the client has gone.

    Raises:
        SlowReader: The client does not read, and must not hold its session for ever.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await context.write(message)
    except TimeoutError:
        # Thrown into the stream, so that its record says how it ended; it comes out again.
        await stream.athrow(SlowReader.after(timeout_s))
    except grpc.aio.InternalError:
        return False
    return True
