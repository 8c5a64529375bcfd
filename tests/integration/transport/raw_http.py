"""HTTP by hand: bytes out, and what comes back until the answer is whole or the connection ends."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.integration.gateway_stage import HOST, PATIENCE_S

STILL_OPEN_S = 0.05  # a connection that says nothing for so long behind its answer stays open


@dataclass(frozen=True)
class Answer:
    """What came back.

    Args:
        status: 0: nothing did.
        headers: In lower case.
        body: As it came, chunked or not.
        is_closed: True: the server closed the connection behind it.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_closed: bool

    @property
    def error(self) -> Any:
        """Of a body in the shape that errors have."""
        return json.loads(self.body)["error"]


class Wire:
    """A connection from the client's side.

    What was received stays there to be read when sending fails, which asyncio's own streams drop.

    Args:
        connected: A socket that does not block.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.reader = asyncio.StreamReader()
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> bool:
        """Sends bytes; False where the server has closed."""
        try:
            await self._loop.sock_sendall(self._socket, data)
        except ConnectionError:
            return False
        return True

    def send_end(self) -> None:
        """Says that nothing more will come."""
        self._socket.shutdown(socket.SHUT_WR)

    async def keep_receiving(self) -> None:
        """Receives until the server closes, or resets, the connection."""
        try:
            while data := await self._loop.sock_recv(self._socket, 2**16):
                self.reader.feed_data(data)
        except ConnectionError:
            pass
        self.reader.feed_eof()


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Wire]:
    """A connection; cut without a word at the end."""
    with socket.socket() as connected:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (HOST, port))
        wire = Wire(connected)
        receiving = asyncio.create_task(wire.keep_receiving())
        try:
            async with asyncio.timeout(4 * PATIENCE_S):
                yield wire
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


async def exchange(port: int, *parts: bytes, pause_s: float = 0.0) -> Answer:
    """Sends something on a connection of its own.

    Args:
        port: Where to.
        parts: What, piece by piece; an answer stops it.
        pause_s: Between the pieces.
    """
    async with connection(port) as wire:
        reading = asyncio.create_task(read_answer(wire.reader))
        for part in parts:
            if reading.done() or not await wire.send(part):
                break
            if pause_s:
                await asyncio.wait([reading], timeout=pause_s)
        return await reading


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """The next answer on a connection; whole ones with a length only."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError as error:
        return Answer(0, {}, error.partial, is_closed=True)
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    status = int(first.split(" ")[1])
    if status == 100:
        return await read_answer(reader)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(status, headers, body, await _is_closed(reader))


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(STILL_OPEN_S):
            return await reader.read(1) == b""
    except TimeoutError:
        return False


def head(method: str, target: str, headers: Sequence[str] = (), *, key: str = "") -> bytes:
    """The head of a request, with a Host and a key."""
    lines = [f"{method} {target} HTTP/1.1", "Host: x", *headers]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(target: str, body: bytes, headers: Sequence[str] = (), *, key: str = "") -> bytes:
    """A whole request with JSON."""
    framing = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return head("POST", target, [*framing, *headers], key=key) + body
