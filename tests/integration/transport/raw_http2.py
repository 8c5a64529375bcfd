"""HTTP/2 by hand, frame by frame, as no well-behaved client sends it."""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.integration.gateway_stage import HOST, PATIENCE_S

# The server writes it out as a literal, with its length before it.
STATUS = re.compile(rb"grpc-status[\x01\x02]([0-9]{1,2})(?![0-9])")
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
CANCEL = struct.pack(">I", 8)
NO_ERROR, ENHANCE_YOUR_CALM = 0, 11

Fields = Sequence[tuple[bytes, bytes]]


def frame(kind: int, payload: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header field, written out and remembered by nobody."""
    return b"\x00" + _text(name) + _text(value)


def _text(data: bytes) -> bytes:
    size, more = len(data), b""
    if size < 127:
        return bytes([size]) + data
    size -= 127
    while size >= 128:
        more += bytes([size % 128 + 128])
        size //= 128
    return b"\x7f" + more + bytes([size]) + data


def call_fields(path: str, extra: Fields = ()) -> bytes:
    """The header fields of a gRPC call."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", b"x"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *extra,
    ]
    return b"".join(literal(name, value) for name, value in fields)


def headers(stream: int, fields: bytes, *, ends: bool = False) -> bytes:
    """HEADERS, and CONTINUATION where they do not fit into one frame."""
    pieces = [fields[start : start + 16_384] for start in range(0, len(fields), 16_384)]
    frames = b""
    for place, piece in enumerate(pieces):
        flags = END_HEADERS if place == len(pieces) - 1 else 0
        if place == 0 and ends:
            flags |= END_STREAM
        frames += frame(HEADERS if place == 0 else 9, piece, stream, flags)
    return frames


def message(stream: int, data: bytes, *, is_compressed: bool = False, ends: bool = True) -> bytes:
    """A gRPC message in DATA frames."""
    whole = struct.pack(">BI", is_compressed, len(data)) + data
    pieces = [whole[start : start + 16_384] for start in range(0, len(whole), 16_384)]
    return b"".join(
        frame(DATA, piece, stream, END_STREAM if ends and place == len(pieces) - 1 else 0)
        for place, piece in enumerate(pieces)
    )


@dataclass
class Http2:
    """A connection, and what has come on it so far.

    Args:
        reader: From the server.
        writer: To the server.
        frames: Kind, flags, stream and payload of each frame.
        is_closed: True: the server has closed it.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    frames: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    is_closed: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def changed(self) -> None:
        """Returns when something more has come."""
        await self._news.wait()
        self._news.clear()

    async def send(self, data: bytes) -> None:
        """Sends bytes, unless the server has closed already."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except ConnectionError:
            pass

    async def keep_reading(self) -> None:
        """Reads frames until the connection ends."""
        try:
            while True:
                first = await self.reader.readexactly(9)
                size = int.from_bytes(first[:3], "big")
                kind, flags, stream = struct.unpack(">BBI", first[3:])
                payload = await self.reader.readexactly(size)
                self.frames.append((kind, flags, stream, payload))
                self._news.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.is_closed = True
            self._news.set()

    @property
    def goaway_codes(self) -> list[int]:
        """Error codes of GOAWAY frames."""
        return [int.from_bytes(p[4:8], "big") for kind, _, _, p in self.frames if kind == GOAWAY]

    def statuses(self, stream: int = 1) -> list[int]:
        """gRPC statuses in its header frames, where they are written out."""
        blocks = [p for kind, _, of, p in self.frames if kind == HEADERS and of == stream]
        return [int(found[1]) for block in blocks for found in STATUS.finditer(block)]

    @property
    def reset_codes(self) -> list[int]:
        """Error codes of RST_STREAM frames."""
        return [int.from_bytes(p[:4], "big") for kind, _, _, p in self.frames if kind == RST_STREAM]


@asynccontextmanager
async def http2(port: int, *, settings: bytes = b"") -> AsyncIterator[Http2]:
    """Opens a connection and reads whatever comes on it; cut without a word at the end."""
    reader, writer = await asyncio.open_connection(HOST, port)
    one = Http2(reader, writer)
    reading = asyncio.create_task(one.keep_reading())
    try:
        async with asyncio.timeout(4 * PATIENCE_S):
            await one.send(PREFACE + frame(SETTINGS, settings))
            yield one
    finally:
        writer.transport.abort()
        await reading
