"""Faults of HTTP clients that take time or go away: FAULTS 56, 58 and 59."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from tests.integration.transport.ground import KEY, SEND_TIMEOUT_S, Ground
from tests.integration.transport.http_cases import BODY, CHUNKED, GENERATE, JSON
from tests.integration.transport.raw_http import connection, exchange, head, post, read_answer

DRIP_S = 0.05  # between bytes of a slow client
MARGIN_S = 1.5  # for a busy machine
FREE_S = 0.25
TRIES = 3  # the fastest of so many counts: the machine may be busy


async def slow_head(on: Ground) -> None:
    drops = [bytes([byte]) for byte in head("GET", "/health", ["X: " + "a" * 50])]
    began = time.monotonic()
    answer = await exchange(on.gateway.http_port, *drops, pause_s=DRIP_S)
    assert (answer.status, answer.is_closed) == (408, True)
    assert SEND_TIMEOUT_S <= time.monotonic() - began < SEND_TIMEOUT_S + MARGIN_S


async def slow_head_of_a_second_request(on: Ground) -> None:
    async with connection(on.gateway.http_port) as wire:
        await wire.send(head("GET", "/health"))
        assert (await read_answer(wire.reader)).status == 200
        await wire.send(b"GET /hea")
        assert (await read_answer(wire.reader)).status == 408


async def silence(on: Ground) -> None:
    answer = await exchange(on.gateway.http_port)
    assert (answer.status, answer.body, answer.is_closed) == (0, b"", True)


async def slow_body(on: Ground) -> None:
    for framing, drop in (("Content-Length: 100", b" "), (CHUNKED, b"1\r\n \r\n")):
        request = head("POST", GENERATE, [JSON, framing], key=KEY)
        answer = await exchange(on.gateway.http_port, request, *[drop] * 60, pause_s=DRIP_S)
        assert (answer.status, answer.is_closed) == (408, True)
        assert answer.error["code"] == "request_timeout"


async def slow_body_that_nobody_reads(on: Ground) -> None:
    async with connection(on.gateway.http_port) as wire:
        await wire.send(head("GET", "/health", ["Content-Length: 1000"]))
        answer = await read_answer(wire.reader)
        assert (answer.status, answer.is_closed) == (200, False)
        closed = asyncio.create_task(wire.reader.read())
        async with asyncio.timeout(SEND_TIMEOUT_S + MARGIN_S):
            while not closed.done():
                await wire.send(b" ")
                await asyncio.wait([closed], timeout=DRIP_S)


async def broken_body_of_one_who_stays(on: Ground) -> None:
    """It is answered once, and the connection ends though the client goes on."""
    async with connection(on.gateway.http_port) as wire:
        await wire.send(head("POST", GENERATE, [JSON, CHUNKED], key=KEY))
        await asyncio.sleep(SEND_TIMEOUT_S / 2)  # so that its route is done waiting first
        await wire.send(b"zz\r\n")
        assert (await read_answer(wire.reader)).status == 400
        for _ in range(round((SEND_TIMEOUT_S + MARGIN_S) / DRIP_S)):
            if not await wire.send(b" "):
                return
            await asyncio.sleep(DRIP_S)
        raise AssertionError("it is still open")


async def a_body_that_is_asked_for(on: Ground) -> None:
    framing = [JSON, "Expect: 100-continue", f"Content-Length: {len(BODY)}"]
    async with connection(on.gateway.http_port) as wire:
        await wire.send(head("POST", GENERATE, framing, key=KEY))
        assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        await wire.send(BODY)
        assert (await read_answer(wire.reader)).status == 200


async def gone_in_the_body(on: Ground) -> None:
    async with connection(on.gateway.http_port) as wire:
        await wire.send(head("POST", GENERATE, [JSON, "Content-Length: 100"], key=KEY) + b"{")


async def gone_before_the_first_token(on: Ground) -> None:
    await _freed_in_time(on, "hold")


async def gone_in_mid_stream(on: Ground) -> None:
    await _freed_in_time(on, "half")


async def gone_after_the_end(on: Ground) -> None:
    async with connection(on.gateway.http_port) as wire:
        await wire.send(_stream_request("x"))
        await wire.reader.readuntil(b"data: [DONE]")
    assert await on.seconds_until_free() < FREE_S


async def half_closed(on: Ground) -> None:
    """The end of what a client sends cannot be told from its going away, and counts as that."""
    async with connection(on.gateway.http_port) as wire:
        await wire.send(_stream_request("half"))
        await wire.reader.readuntil(b"\n\n")
        wire.send_end()
        await on.seconds_until_free()


async def _freed_in_time(on: Ground, prompt: str) -> None:
    taken = []
    for _ in range(TRIES):
        async with connection(on.gateway.http_port) as wire:
            await wire.send(_stream_request(prompt))
            if prompt == "half":
                await wire.reader.readuntil(b"\n\n")
            await on.drafting.wait_for_open(2)
        taken.append(await on.seconds_until_free())
    assert min(taken) <= FREE_S, taken


def _stream_request(prompt: str) -> bytes:
    return post(GENERATE, json.dumps({"prompt": prompt, "stream": True}).encode(), key=KEY)


HTTP_DEEDS: list[tuple[str, Callable[[Ground], Awaitable[None]]]] = [
    ("54 a chunk that is none, of one who stays", broken_body_of_one_who_stays),
    ("56 a head, byte by byte", slow_head),
    ("56 half a head on a connection that was used before", slow_head_of_a_second_request),
    ("56 nothing at all", silence),
    ("56 a body, byte by byte", slow_body),
    ("56 a body that nobody reads, byte by byte", slow_body_that_nobody_reads),
    ("58 a body that is asked for", a_body_that_is_asked_for),
    ("59 gone in the body", gone_in_the_body),
    ("59 gone before the first token", gone_before_the_first_token),
    ("59 gone in mid-stream", gone_in_mid_stream),
    ("59 gone after the end", gone_after_the_end),
    ("59 half closed", half_closed),
]
