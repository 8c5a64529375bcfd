"""Server-sent events: whole, and closed at once when the client is gone or does not read."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message, Scope

from gateway.choices import Messages
from gateway.event_stream import EventStream
from outrider.protocol.errors import SlowReader
from outrider.v1 import generation_pb2

SCOPE: Scope = {"type": "http", "asgi": {"spec_version": "2.3"}}


class Client:
    """What the server sees of a client that takes so many messages.

    Args:
        patience: Messages it takes, the head included, before it stops reading.
        leaves: True: it then goes away.
    """

    def __init__(self, patience: int, leaves: bool = False) -> None:
        self.taken: list[bytes] = []
        self._patience = patience
        self._leaves = leaves
        self._gone = asyncio.Event()

    async def send(self, message: Message) -> None:
        if len(self.taken) == self._patience:
            if self._leaves:
                self._gone.set()
            await asyncio.Event().wait()
        self.taken.append(message.get("body", b""))

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}


class Events:
    """Three events, what they are made of, and whether and how these were closed."""

    def __init__(self) -> None:
        self.is_closed = False
        self.error: Exception | None = None

    async def messages(self) -> Messages:
        try:
            for _ in range(3):
                yield generation_pb2.GenerateResponse()
        except SlowReader as error:
            self.error = error
            raise

    async def generate(self, messages: Messages) -> AsyncGenerator[str, None]:
        number = 0
        try:
            async for _ in messages:
                yield f"data: {number}\n\n"
                number += 1
        finally:
            self.is_closed = True


async def respond(client: Client, read_timeout_s: float = 30.0) -> Events:
    events = Events()
    messages = events.messages()
    response = EventStream(events.generate(messages), messages, read_timeout_s)
    await response(SCOPE, client.receive, client.send)
    return events


@pytest.mark.asyncio
async def test_a_client_that_reads_gets_all() -> None:
    client = Client(patience=100)
    assert (await respond(client)).is_closed
    assert client.taken == [b"", b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n", b""]


@pytest.mark.asyncio
async def test_a_client_that_leaves_closes_the_events() -> None:
    assert (await respond(Client(patience=2, leaves=True))).is_closed


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_ends_the_stream_by_name() -> None:
    client = Client(patience=2)
    events = await respond(client, read_timeout_s=0.01)
    assert events.is_closed
    assert isinstance(events.error, SlowReader)
    assert client.taken == [b"", b"data: 0\n\n"]
