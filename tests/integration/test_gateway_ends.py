"""Streams that end early: clients that leave, deadlines, full houses. Nothing is left behind."""

import asyncio
import json
import socket
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from outrider.protocol.errors import DeadlineExceeded
from outrider.v1 import generation_pb2, generation_pb2_grpc
from tests.integration.gateway_stage import (
    HOST,
    PATIENCE_S,
    ScriptedDrafting,
    Stage,
    answer,
    grpc_refusal,
    limits,
    prompt,
    rich_status,
    script,
    stage,
)
from tests.integration.transport.raw_http2 import NO_ERROR, http2

pytestmark = pytest.mark.asyncio


async def test_a_cancelled_call_closes_the_session() -> None:
    """B47 over gRPC."""
    async with stage(script("abc", hold_after=1)) as on:
        call = on.stub.Generate(prompt())
        await call.read()
        call.cancel()
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1
        assert on.metric("outrider_running_requests") == 0


async def test_an_old_connection_takes_no_new_calls_and_ends_none() -> None:
    """So that gateways which were added get their share of clients that stay for hours."""
    async with stage(script("abcdef", hold_after=1), connection_age_s=0.2) as on:
        messages = aiter(on.stub.Generate(prompt()))
        assert (await anext(messages)).text == "a"
        async with http2(on.grpc_port) as younger:
            while not younger.goaway_codes:
                await younger.changed()
            assert younger.goaway_codes[-1] == NO_ERROR
        on.drafting.release.set()
        assert "".join([message.text async for message in messages]) == "bcdef"
        assert (await answer(on, prompt()))[-1].finish_reason


async def test_a_disconnected_event_stream_closes_the_session() -> None:
    """B47 over HTTP, in mid-stream."""
    async with stage(script("abc", hold_after=1)) as on:
        request = on.http.stream("POST", "/generate", json={"prompt": "x", "stream": True})
        async with request as response:
            lines = response.aiter_lines()
            assert json.loads((await anext(lines)).removeprefix("data: "))["text"] == "a"
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1
        assert on.metric("outrider_requests_total", outcome="cancelled") == 1


@pytest.mark.parametrize(("streams", "hold_after"), [(False, 0), (False, 1), (True, 0)])
async def test_a_client_that_leaves_before_the_answer_closes_the_session(
    streams: bool, hold_after: int
) -> None:
    async with stage(script("abc", hold_after=hold_after)) as on:
        post = on.http.post("/generate", json={"prompt": "x", "stream": streams})
        task = asyncio.create_task(post)
        await on.drafting.wait_for_open(1)
        task.cancel()
        await on.drafting.wait_for_open(0)
        assert on.drafting.cancelled_count == 1


async def test_a_clients_deadline_ends_the_stream_and_the_session() -> None:
    async with stage(script("abc", hold_after=1)) as on:
        error = await grpc_refusal(on, prompt(), timeout_s=0.3)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await on.drafting.wait_for_open(0)


async def test_the_servers_cap_ends_the_stream_and_the_session() -> None:
    async with stage(script("abc", hold_after=1), max_deadline_s=0.3) as on:
        error = await grpc_refusal(on, prompt())
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        response = await on.http.post("/generate", json={"prompt": "x"})
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "deadline_exceeded"
        await on.drafting.wait_for_open(0)
        assert on.metric("outrider_requests_total", outcome="deadline_exceeded") == 2


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_an_expired_deadline_opens_no_session(timeout_s: float) -> None:
    async with stage(script("abc")) as on:
        with pytest.raises(DeadlineExceeded):
            await anext(on.generation.generate(prompt(), timeout_s, ""))
        assert on.drafting.requests == []


async def test_a_full_house_says_when_to_come_again() -> None:
    async with stage(script("abc", hold_after=1), max_running=1, max_queued=0) as on:
        running = on.stub.Generate(prompt())
        await running.read()
        error = await grpc_refusal(on, prompt())
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        info = error_details_pb2.RetryInfo()
        assert rich_status(error).details[0].Unpack(info)
        assert info.retry_delay.seconds >= 1
        response = await on.http.post("/generate", json={"prompt": "x"})
        assert response.status_code == 429
        assert int(response.headers["Retry-After"]) >= 1
        running.cancel()
        await on.drafting.wait_for_open(0)


async def test_a_queued_request_runs_when_a_place_is_free() -> None:
    async with stage(script("ab", hold_after=1), max_running=1, max_queued=1) as on:
        first = on.stub.Generate(prompt())
        await first.read()
        second = asyncio.create_task(answer(on, prompt()))
        while on.metric("outrider_queued_requests") == 0:
            await on.stub.GetModel(generation_pb2.GetModelRequest())
        on.drafting.release.set()
        assert "".join(m.text for m in await second) == "ab"


def long_answer() -> ScriptedDrafting:
    """More text than the buffers between the processes take."""
    worker = script("x" * 400_000, block_size=4000)
    worker.worker.context_limit = 1_000_000
    return worker


async def test_a_grpc_client_that_does_not_read_loses_its_session() -> None:
    small_window = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1024))
    async with (
        stage(long_answer(), read_timeout_s=0.2) as on,
        grpc.aio.insecure_channel(f"{HOST}:{on.grpc_port}", options=small_window) as channel,
    ):
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        call = stub.Generate(prompt(limits=limits(max_new_tokens=400_000)))
        await call.read()
        await one_given_up(on)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_to_the_end(call)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_event_client_that_does_not_read_loses_its_session_and_its_connection() -> None:
    body = json.dumps({"prompt": "x", "stream": True, "max_new_tokens": 100_000}).encode()
    head = "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        async with stage(long_answer(), read_timeout_s=0.5) as on:
            await asyncio.to_thread(client.connect, (HOST, on.http_port))
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await one_given_up(on)
            await on.drafting.wait_for_open(0)
            async with asyncio.timeout(PATIENCE_S):
                while on.http_connections:
                    await on.stub.GetModel(generation_pb2.GetModelRequest())


async def read_to_the_end(
    call: "grpc.aio.UnaryStreamCall[Any, generation_pb2.GenerateResponse]",
) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def one_given_up(on: Stage) -> None:
    """Returns when the gateway has given up one request."""
    async with asyncio.timeout(PATIENCE_S):
        while on.metric("outrider_requests_total", outcome="slow_reader") == 0:
            await on.stub.GetModel(generation_pb2.GetModelRequest())
    assert on.metric("outrider_running_requests") == 0
