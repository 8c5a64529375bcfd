"""Faults of whole gRPC connections: FAULTS 47 to 49. The others, and their streams, go on."""

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable

from tests.integration.gateway_stage import HOST, PATIENCE_S, limits, prompt
from tests.integration.transport.ground import (
    KEY,
    LONG,
    READ_TIMEOUT_S,
    SEND_TIMEOUT_S,
    Ground,
    metadata,
)
from tests.integration.transport.grpc_cases import GENERATE, REQUEST
from tests.integration.transport.http_cases import CLIENT_HELLO
from tests.integration.transport.http_deeds import FREE_S, MARGIN_S, TRIES
from tests.integration.transport.raw_http import connection, head
from tests.integration.transport.raw_http2 import (
    CANCEL,
    DATA,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    Http2,
    call_fields,
    frame,
    headers,
    http2,
    literal,
    message,
)

RESETS = 10_000
AUTHORIZATION = ((b"authorization", f"Bearer {KEY}".encode()),)
CALL = call_fields(GENERATE, AUTHORIZATION)
NO_WINDOW = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE


async def resets(on: Ground) -> None:
    """Calls that are taken back at once, by one client and by several."""
    for clients in (1, 4):
        began = time.monotonic()
        await asyncio.gather(*(_taken_back(on, RESETS // clients) for _ in range(clients)))
        assert time.monotonic() - began < PATIENCE_S
        await on.seconds_until_free()


async def _taken_back(on: Ground, count: int) -> None:
    async with http2(on.gateway.grpc_port) as one:
        for first in range(0, count, 100):
            await one.send(
                b"".join(
                    headers(stream, CALL)
                    + message(stream, REQUEST)
                    + frame(RST_STREAM, CANCEL, stream)
                    for stream in range(2 * first + 1, 2 * first + 201, 2)
                )
            )
        await _is_answered(on)


async def calls_without_a_message(on: Ground) -> None:
    async with http2(on.gateway.grpc_port) as one:
        await one.send(b"".join(headers(2 * number + 1, CALL) for number in range(1000)))
        await on.stands("47 beside calls without a message")
        await _is_answered(on)
    await on.seconds_until_free()


async def pings(on: Ground) -> None:
    async with http2(on.gateway.grpc_port) as one:
        await one.send(frame(PING, b"12345678") * 10_000)
        await _until(one, GOAWAY)
        assert one.goaway_codes == [ENHANCE_YOUR_CALM]


async def settings(on: Ground) -> None:
    """The runtime acknowledges them all; what matters is that nobody else waits."""
    async with http2(on.gateway.grpc_port) as one:
        await one.send(frame(SETTINGS) * 100_000)
        await on.stands("47 beside settings")
        await _is_answered(on)


async def empty_frames(on: Ground) -> None:
    async with http2(on.gateway.grpc_port) as one:
        await one.send(headers(1, CALL) + frame(DATA, b"", 1) * 50_000)
        await _until_closed(one)


async def headers_without_end(on: Ground) -> None:
    async with http2(on.gateway.grpc_port) as one:
        await one.send(frame(HEADERS, CALL, 1))
        for number in range(200):
            await one.send(frame(9, literal(b"x%d" % number, b"a" * 16_000), 1))
        await on.stands("47 beside headers without end")


async def broken_frames(on: Ground) -> None:
    too_long = struct.pack(">I", 2**24 - 1)[1:] + b"\0\0" + struct.pack(">I", 1)
    for broken in (
        frame(HEADERS, b"\xff" * 6, 1, 4),  # a number too large
        frame(HEADERS, b"\xfe", 1, 4),  # a field that nobody has named
        too_long,
        frame(8, bytes(4)),  # a window of nothing more
    ):
        async with http2(on.gateway.grpc_port) as one:
            await one.send(broken)
            await _until_closed(one)


async def idle_connections(on: Ground) -> None:
    """A thousand that say nothing: they are closed, and meanwhile others are served."""
    port = on.gateway.grpc_port
    pairs = [await asyncio.open_connection(HOST, port) for _ in range(1000)]
    try:
        await on.stands("47 beside idle connections")
        await _is_answered(on)
        async with asyncio.timeout(SEND_TIMEOUT_S + PATIENCE_S):
            for reader, _ in pairs:
                await reader.read()
    finally:
        for _, writer in pairs:
            writer.transport.abort()


async def half_a_greeting(on: Ground) -> None:
    for said in (b"", PREFACE[:10], PREFACE):
        began = time.monotonic()
        async with connection(on.gateway.grpc_port) as wire:
            await wire.send(said)
            await wire.reader.read()
        assert time.monotonic() - began < SEND_TIMEOUT_S + MARGIN_S


async def never_reads(on: Ground) -> None:
    """Its window stays closed: the stream rests, and is given up."""
    request = prompt("long", limits=limits(max_new_tokens=LONG)).SerializeToString()
    async with http2(on.gateway.grpc_port, settings=NO_WINDOW) as one:
        await one.send(headers(1, CALL) + message(1, request))
        await on.drafting.wait_for_open(2)
        await on.stands("48 beside one that never reads")
        assert await on.seconds_until_free() < READ_TIMEOUT_S + MARGIN_S


async def cancelled(on: Ground) -> None:
    """Before the first token, and in mid-stream."""
    for text in ("hold", "half"):
        taken = []
        for _ in range(TRIES):
            request = prompt(text).SerializeToString()
            call = on.generate(request, metadata=metadata())
            if text == "half":
                await call.read()
            await on.drafting.wait_for_open(2)
            call.cancel()
            taken.append(await on.seconds_until_free())
        assert min(taken) <= FREE_S, taken


async def another_protocol(on: Ground) -> None:
    for said in (head("GET", "/health"), CLIENT_HELLO, bytes(range(256)) * 10):
        async with connection(on.gateway.grpc_port) as wire:
            await wire.send(said)
            assert b"HTTP/1" not in await wire.reader.read()


async def _is_answered(on: Ground) -> None:
    call = on.generate(REQUEST, metadata=metadata(), timeout=PATIENCE_S)
    assert [answer async for answer in call]


async def _until(one: Http2, kind: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while all(frame[0] != kind for frame in one.frames):
            await one.changed()


async def _until_closed(one: Http2) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not one.is_closed:
            await one.changed()


GRPC_DEEDS: list[tuple[str, Callable[[Ground], Awaitable[None]]]] = [
    ("47 10,000 calls taken back", resets),
    ("47 1,000 calls without a message", calls_without_a_message),
    ("47 PING flood", pings),
    ("47 SETTINGS flood", settings),
    ("47 empty frames", empty_frames),
    ("47 headers without end", headers_without_end),
    ("47 broken frames", broken_frames),
    ("47 1,000 idle connections", idle_connections),
    ("47 half a greeting", half_a_greeting),
    ("48 never reads", never_reads),
    ("48 cancelled", cancelled),
    ("49 another protocol", another_protocol),
]
