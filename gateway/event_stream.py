"""Server-sent events of one answer. Knows no fields of a message, only how they are framed."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from starlette.responses import StreamingResponse
from starlette.types import Message, Send

from gateway.choices import Messages
from outrider.protocol.errors import SlowReader

DONE_EVENT = "data: [DONE]\n\n"

_logger = logging.getLogger(__name__)


class EventStream(StreamingResponse):
    """Sends events until they end or the client goes away; then closes the generator at once.

    Args:
        events: Framed events; closed by this response, whatever happens.
        messages: What they are made of; told where the client does not read.
        read_timeout_s: How long a client may read nothing, seconds.
    """

    def __init__(
        self, events: AsyncGenerator[str, None], messages: Messages, read_timeout_s: float
    ) -> None:
        super().__init__(
            events,
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._events = events
        self._messages = messages
        self._read_timeout_s = read_timeout_s

    async def stream_response(self, send: Send) -> None:
        """Runs in the task that is cancelled when the client disconnects."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._read_timeout_s):
                await send(message)

        # Left to the garbage collector, the generator would hold its session for a while.
        async with aclosing(self._events):
            try:
                await super().stream_response(send_in_time)
            except TimeoutError:
                # The connection is closed behind an answer that has no end: there is no room in
                # it for an error either. The stream's record says why.
                error = SlowReader.after(self._read_timeout_s)
                _logger.warning(error.message)
                with suppress(SlowReader):
                    await self._messages.athrow(error)
