"""A client of several gateways passes over one that takes no more calls."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from outrider.evaluation.client import SPREAD, AskFailed, ask, chat_request, connect
from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc

DOCS = Path(__file__).parents[2] / "docs" / "going-live.md"
REQUEST = chat_request("Hello", "none", 1)
MODEL = generation_pb2.GetModelResponse()
ANSWER = generation_pb2.GenerateResponse(
    token_ids=[5], finish_reason=decoding_pb2.FINISH_REASON_LENGTH
)


class Gateway(generation_pb2_grpc.GenerationServiceServicer):
    """Answers with one token, or ends each call with a status, behind so many messages."""

    def __init__(self, status: grpc.StatusCode | None = None, behind: int = 0) -> None:
        self._status, self._behind = status, behind
        self.calls = 0

    async def GetModel(self, request: Any, context: Any) -> generation_pb2.GetModelResponse:
        return MODEL

    async def Generate(self, request: Any, context: Any) -> None:  # type: ignore[override]
        self.calls += 1
        for _ in range(self._behind):
            await context.write(ANSWER)
        if self._status is not None:
            await context.abort(self._status)
        await context.write(ANSWER)


async def serve(stack: AsyncExitStack, gateway: Gateway) -> str:
    server = grpc.aio.server()
    generation_pb2_grpc.add_GenerationServiceServicer_to_server(gateway, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stack.push_async_callback(server.stop, None)
    return f"127.0.0.1:{port}"


# UNAVAILABLE is what a draining gateway says. CANCELLED is what gRPC's runtime says of a call that
# had come, and that nobody had taken up yet, when its server was stopped.
@pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_a_call_that_was_not_taken_up_goes_to_the_other_gateway(status):
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            leaving, staying = Gateway(status), Gateway()
            addresses = [await serve(stack, one) for one in (leaving, staying)]
            stub = await stack.enter_async_context(connect(*addresses))
            while not leaving.calls:  # connections are made in any order
                assert (await ask(stub, REQUEST)).token_ids == (5,)
            assert staying.calls > 0

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_stream_that_has_begun_is_not_asked_for_twice():
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            gateways = [Gateway(grpc.StatusCode.CANCELLED, behind=1) for _ in range(2)]
            addresses = [await serve(stack, one) for one in gateways]
            stub = await stack.enter_async_context(connect(*addresses))
            with pytest.raises(AskFailed, match="CANCELLED"):
                await ask(stub, REQUEST)
            assert sum(one.calls for one in gateways) == 1

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_configuration_in_the_documentation_is_the_tried_one():
    text = DOCS.read_text(encoding="utf-8")
    blocks = [block.removeprefix("json") for block in text.split("```")[1::2]]
    assert SPREAD in [json.loads(block) for block in blocks if block.lstrip().startswith("{")]
