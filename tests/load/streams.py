"""Clients of a load test: healthy ones that note when each message came, and ones that stall."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import grpc

from outrider.v1 import generation_pb2, generation_pb2_grpc
from tests.load.processes import HOST

STALLED_TOKENS = 900_000  # more than the buffers between the processes take
RECEIVE_BUFFER_BYTES = 4096


def request(tokens: int) -> generation_pb2.GenerateRequest:
    """A prompt and how many tokens are wanted."""
    limits = generation_pb2.Limits(max_new_tokens=tokens)
    return generation_pb2.GenerateRequest(prompt="x", limits=limits)


async def message_times(stub: object, tokens: int) -> list[float]:
    """Reads a stream to its end; when each message came, in seconds of the loop's clock."""
    now = asyncio.get_running_loop().time
    times: list[float] = []
    async for _ in stub.Generate(request(tokens)):  # type: ignore[attr-defined]
        times.append(now())
    return times


async def all_gaps(port: int, streams: int, tokens: int, channels: int = 4) -> list[float]:
    """Times between messages of many streams that are read as fast as they come, sorted, seconds.

    Args:
        port: gRPC port of the gateway.
        streams: How many at once.
        tokens: Of each.
        channels: Connections that the streams share.
    """
    async with contextlib.AsyncExitStack() as stack:
        stubs = []
        for number in range(channels):
            options = (("grpc.use_local_subchannel_pool", 1), ("outrider.number", number))
            channel = grpc.aio.insecure_channel(f"{HOST}:{port}", options=options)
            stubs.append(
                generation_pb2_grpc.GenerationServiceStub(await stack.enter_async_context(channel))
            )
        times = await asyncio.gather(
            *(message_times(stubs[number % channels], tokens) for number in range(streams))
        )
    assert all(len(one) == tokens for one in times)
    return sorted(b - a for one in times for a, b in pairwise(one))


@asynccontextmanager
async def stalled_grpc(port: int, count: int) -> AsyncIterator[None]:
    """Streams that are opened and never read."""
    small = (("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=small) as channel:
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        calls = [stub.Generate(request(STALLED_TOKENS)) for _ in range(count)]
        for call in calls:
            await call.read()
        yield
        for call in calls:
            call.cancel()


@asynccontextmanager
async def stalled_events(port: int, count: int) -> AsyncIterator[None]:
    """Event streams whose clients read the head of the answer and nothing more."""
    body = {"prompt": "x", "stream": True, "max_new_tokens": STALLED_TOKENS}
    data = json.dumps(body).encode()
    head = (
        f"POST /generate HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    writers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(HOST, port, limit=RECEIVE_BUFFER_BYTES)
        writer.write(head.encode() + data)
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writers.append(writer)
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()
