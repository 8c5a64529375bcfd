"""Translates between gRPC and `generation.py`; decides nothing.

Errors pass through as they are: `interceptors.py` turns them into statuses.
"""

import asyncio
from contextlib import aclosing
from typing import Any

import grpc

from gateway.generation import Generation
from outrider.api_keys import Access
from outrider.protocol.errors import NoCapacity
from outrider.v1 import generation_pb2, generation_pb2_grpc

WRITE_TIMEOUT_S = 30.0


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """The public service.

    Args:
        generation: Does the work.
        access: Who may ask.
    """

    def __init__(self, generation: Generation, access: Access) -> None:
        self._generation, self._access = generation, access

    async def Generate(  # type: ignore[override]  # the stub knows generators only
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        """Streams an answer."""
        tenant = self._access.tenant_of(_metadata(context, "authorization"))
        messages = self._generation.generate(
            request, context.time_remaining(), _metadata(context, "traceparent"), tenant
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
        self._access.tenant_of(_metadata(context, "authorization"))
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


def _metadata(context: Any, name: str) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == name and isinstance(value, str):
            return value
    return ""
