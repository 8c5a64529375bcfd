"""Server-sent events of one answer. Knows no fields of a message, only how they are framed."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

WRITE_TIMEOUT_S = 30.0
DONE_EVENT = "data: [DONE]\n\n"

_logger = logging.getLogger(__name__)


class EventStream(StreamingResponse):
    """Sends events until they end or the client goes away; then closes the generator at once.

    Args:
        events: Framed events; closed by this response, whatever happens.
    """

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        super().__init__(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Runs in the task that is cancelled when the client disconnects."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await send(message)

        # Left to the garbage collector, the generator would hold its session for a while.
        async with aclosing(self._events):
            try:
                await super().stream_response(send_in_time)
            except TimeoutError:
                # The connection is closed behind an answer that has no end.
                _logger.warning("a client read nothing for %g s", WRITE_TIMEOUT_S)
