"""Translates between gRPC and `generation.py`; decides nothing.

Errors pass through as they are: `interceptors.py` turns them into statuses.
"""

import asyncio
from contextlib import aclosing
from typing import Any

import grpc

from gateway.generation import Generation
from outrider.protocol.errors import NoCapacity
from outrider.v1 import generation_pb2, generation_pb2_grpc

WRITE_TIMEOUT_S = 30.0


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """The public service.

    Args:
        generation: Does the work.
    """

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    async def Generate(  # type: ignore[override]  # the stub knows generators only
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        """Streams an answer."""
        messages = self._generation.generate(
            request, context.time_remaining(), _traceparent(context)
        )
        # Written here rather than yielded, so that a cancelled call closes the generator at once.
        async with aclosing(messages):
            async for message in messages:
                if not await _is_written(context, message):
                    return

    async def GetModel(
        self, request: generation_pb2.GetModelRequest, context: Any
    ) -> generation_pb2.GetModelResponse:
        """Describes what is served."""
        return await self._generation.describe()


async def _is_written(context: Any, message: generation_pb2.GenerateResponse) -> bool:
    """Sends a message; False where the client has gone.

    Raises:
        NoCapacity: The client does not read, and must not hold its session for ever.
    """
    try:
        async with asyncio.timeout(WRITE_TIMEOUT_S):
            await context.write(message)
    except TimeoutError:
        raise NoCapacity(f"the client read nothing for {WRITE_TIMEOUT_S:g} s") from None
    except grpc.aio.InternalError:
        return False
    return True


def _traceparent(context: Any) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "traceparent" and isinstance(value, str):
            return value
    return ""
