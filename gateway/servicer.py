"""Translates between gRPC and `generation.py`; decides nothing.

Errors pass through as they are: `interceptors.py` turns them into statuses.
"""

import asyncio
from contextlib import aclosing
from typing import Any

import grpc

from gateway.approaches import grpc_approach, grpc_metadata
from gateway.choices import Messages
from gateway.generation import Generation
from gateway.guard import Guard
from outrider.api_keys import Permission
from outrider.protocol.errors import SlowReader
from outrider.v1 import generation_pb2, generation_pb2_grpc


class GenerationServicer(generation_pb2_grpc.GenerationServiceServicer):
    """The public service.

    Args:
        generation: Does the work.
        guard: Lets callers in.
        read_timeout_s: How long a client may read nothing, seconds.
    """

    def __init__(self, generation: Generation, guard: Guard, read_timeout_s: float) -> None:
        self._generation, self._guard = generation, guard
        self._read_timeout_s = read_timeout_s

    async def Generate(  # type: ignore[override]  # the stub knows generators only
        self, request: generation_pb2.GenerateRequest, context: Any
    ) -> None:
        """Streams an answer."""
        caller = self._guard.admit(grpc_approach(context), Permission.GENERATE)
        messages = self._generation.generate(
            request, context.time_remaining(), grpc_metadata(context, "traceparent"), caller
        )
        # Written here rather than yielded, so that a cancelled call closes the generator at once.
        async with aclosing(messages):
            async for message in messages:
                if not await self._is_written(context, message, messages):
                    return

    async def GetModel(
        self, request: generation_pb2.GetModelRequest, context: Any
    ) -> generation_pb2.GetModelResponse:
        """Describes what is served."""
        self._guard.admit(grpc_approach(context), Permission.MODELS)
        return await self._generation.describe()

    async def _is_written(
        self, context: Any, message: generation_pb2.GenerateResponse, messages: Messages
    ) -> bool:
        """Sends a message; False where the client has gone.

        Raises:
            SlowReader: The client does not read, and must not hold its session for ever.
        """
        try:
            async with asyncio.timeout(self._read_timeout_s):
                await context.write(message)
        except TimeoutError:
            # Thrown into the stream, so that its record says how it ended; it comes out again.
            await messages.athrow(SlowReader.after(self._read_timeout_s))
        except grpc.aio.InternalError:
            return False
        return True
