"""What all HTTP routes that generate have in common, whatever the shape of their bodies.

Knows no fields of a body and none of an answer.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TypeVar

from starlette.requests import Request

from gateway.approaches import http_approach
from gateway.body_reader import parsed, read_json_bytes
from gateway.choices import Messages
from gateway.event_stream import EventStream
from gateway.generation import Generation
from gateway.guard import Caller, Guard
from gateway.http_messages import collected_choices
from gateway.waiting import first_of, unless_gone
from outrider.api_keys import Permission
from outrider.v1 import generation_pb2

T = TypeVar("T")

Events = Callable[[generation_pb2.GenerateResponse, Messages], AsyncGenerator[str, None]]


@dataclass(frozen=True, slots=True)
class HttpCalls:
    """The way from an HTTP request to its answer.

    Args:
        generation: Answers requests.
        guard: Lets callers in.
        max_request_bytes: Largest body.
        read_timeout_s: How long a client may read nothing of its answer, seconds.
        send_timeout_s: How long it may take to send its body, seconds.
    """

    generation: Generation
    guard: Guard
    max_request_bytes: int
    read_timeout_s: float
    send_timeout_s: float

    async def read(self, request: Request, read: Callable[[bytes], T]) -> tuple[Caller, T]:
        """Lets the caller in and reads what it asks.

        Args:
            request: Its body has not been read yet.
            read: Reads the body; must be safe to call from a thread.

        Raises:
            OutriderError: It may not ask, or the body is not well-formed.
            HttpError: The body is of another kind, too large or too late.
            ClientGone: Nobody sends the rest of it.
        """
        caller = self.guard.admit(http_approach(request), Permission.GENERATE)
        data = await read_json_bytes(request, self.max_request_bytes, self.send_timeout_s)
        return caller, await parsed(read, data)

    def generate(
        self, request: Request, proto: generation_pb2.GenerateRequest, caller: Caller
    ) -> Messages:
        """The messages of an answer; HTTP clients name no deadline."""
        traceparent = request.headers.get("traceparent", "")
        return self.generation.generate(proto, None, traceparent, caller)

    async def streamed(self, request: Request, messages: Messages, events: Events) -> EventStream:
        """An answer as events.

        Args:
            request: Whose client may go away.
            messages: Of the answer.
            events: Frames the first message and all others.

        Raises:
            OutriderError: It failed before its first message.
            ClientGone: Nobody waits for it any more.
        """
        first = await unless_gone(request, first_of(messages))
        return EventStream(events(first, messages), messages, self.read_timeout_s)

    async def whole(
        self, request: Request, messages: Messages
    ) -> list[generation_pb2.GenerateResponse]:
        """An answer in one piece: one message for each choice.

        Raises:
            OutriderError: It failed.
            ClientGone: Nobody waits for it any more.
        """
        return await unless_gone(request, collected_choices(messages))
