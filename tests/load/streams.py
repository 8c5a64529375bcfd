"""Clients of a load test: healthy ones that note when each message came, and ones that stall."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise

import grpc

from outrider.v1 import generation_pb2, generation_pb2_grpc
from tests.load.processes import HOST

ENDLESS = 900_000  # tokens
CHANNELS = 4  # connections that healthy streams share
RECEIVE_BUFFER_BYTES = 4096

_ALONE = (("grpc.use_local_subchannel_pool", 1),)
# A window that is soon full; by default the client's library takes in 4 MiB a stream by itself.
_SMALL = (*_ALONE, ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024))


def request(tokens: int, prompt: str = "x") -> generation_pb2.GenerateRequest:
    """A prompt and how many tokens are wanted."""
    limits = generation_pb2.Limits(max_new_tokens=tokens)
    return generation_pb2.GenerateRequest(prompt=prompt, limits=limits)


async def gaps(port: int, streams: int, tokens: int, prompt: str = "x") -> list[float]:
    """Times between the messages of streams that are read as they come, seconds, the least first.

    Args:
        port: gRPC port of the gateway.
        streams: How many at once.
        tokens: Of each, one a message.
        prompt: Of each.
    """
    now = asyncio.get_running_loop().time

    async with contextlib.AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(f"{HOST}:{port}", options=_ALONE)
            )
            for _ in range(CHANNELS)
        ]

        async def times(number: int) -> list[float]:
            stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
                generation_pb2_grpc.GenerationServiceStub(channels[number % CHANNELS])
            )
            return [now() async for _ in stub.Generate(request(tokens, prompt))]

        found = await asyncio.gather(*(times(number) for number in range(streams)))
    assert all(len(one) == tokens for one in found), "a stream is not complete"
    return sorted(b - a for one in found for a, b in pairwise(one))


@asynccontextmanager
async def stalled_grpc(port: int, count: int) -> AsyncIterator[None]:
    """Endless streams of which one message is read and no more."""
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=_SMALL) as channel:
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        calls = [stub.Generate(request(ENDLESS)) for _ in range(count)]
        for call in calls:
            await call.read()
        yield
        for call in calls:
            call.cancel()


@contextmanager
def stalled_events(port: int, count: int) -> Iterator[None]:
    """Endless event streams of which nothing is read."""
    data = json.dumps({"prompt": "x", "stream": True, "max_new_tokens": ENDLESS}).encode()
    head = (
        f"POST /generate HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            client.connect((HOST, port))
            client.sendall(head.encode() + data)
        yield


async def refusal_times(port: int, count: int, timeout_s: float) -> list[float]:
    """How long refusals for lack of room take, one after the other, seconds, the least first.

    Args:
        port: gRPC port of a gateway that has none.
        count: How many.
        timeout_s: Deadline of each request.
    """
    now = asyncio.get_running_loop().time
    times: list[float] = []
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options=_ALONE) as channel:
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        await stub.GetModel(generation_pb2.GetModelRequest())
        for _ in range(count):
            start = now()
            try:
                await stub.Generate(request(10), timeout=timeout_s).read()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                times.append(now() - start)
    return sorted(times)
