"""The bridge from the worker's thread to gRPC streams: one queue of events per open stream."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from draft_service.drafting import Drafting, Event, Failed, RoundDone
from outrider.protocol.errors import InvalidField, WorkerUnavailable

TOLD_TOGETHER = 4  # rounds; each telling wakes the worker's thread


class StreamRunner(Protocol):
    """What runs the streams: a draft worker."""

    def add(self, drafting: Drafting) -> None:
        """Takes a stream."""

    def read(self, session_id: bytes, rounds: int) -> None:
        """So many rounds more of a stream were read; unknown ones are ignored."""

    def cancel(self, session_id: bytes) -> None:
        """Forgets a stream; unknown ones are ignored."""


class Streams:
    """Open streams of one event loop; `deliver` is the worker's `on_events`.

    Args:
        loop: The loop that the streams are read in.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queues: dict[bytes, asyncio.Queue[Event]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def deliver(self, events: list[Event]) -> None:
        """Hands events to their streams; from any thread, once for a whole turn."""
        self._loop.call_soon_threadsafe(self._deliver, events)

    async def run(
        self, worker: StreamRunner, drafting: Drafting
    ) -> AsyncGenerator[RoundDone, None]:
        """Runs one stream to its end; closing the iterator frees it on both workers.

        Raises:
            OutriderError: The stream cannot go on, or its id is in use.
        """
        session_id = drafting.session_id
        if session_id in self._queues:
            raise InvalidField("session_id", "is in use by another stream; ids are never reused")
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._queues[session_id] = queue
        read_rounds = 0
        try:
            worker.add(drafting)
            while True:
                event = await queue.get()
                if isinstance(event, Failed):
                    raise event.error
                yield event
                if event.finish_reason is not None:
                    return
                read_rounds += 1
                if read_rounds == TOLD_TOGETHER:
                    worker.read(session_id, read_rounds)
                    read_rounds = 0
        finally:
            del self._queues[session_id]
            worker.cancel(session_id)

    def fail_all(self) -> None:
        """Ends all streams, as when the worker's thread has died."""
        error = WorkerUnavailable("the draft worker stopped")
        self._deliver([Failed(session_id, error) for session_id in self._queues])

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            queue = self._queues.get(event.session_id)
            if queue is not None:
                queue.put_nowait(event)
