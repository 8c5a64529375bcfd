"""Translates between gRPC and `generation.py`; decides nothing.

Errors pass through as they are: `interceptors.py` turns them into statuses.
"""

from contextlib import aclosing
from typing import Any

from gateway.approaches import grpc_approach, grpc_metadata
from gateway.generation import Generation
from gateway.guard import Guard
from gateway.timely_write import write_in_time
from outrider.api_keys import Permission
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
                if not await write_in_time(context, message, messages, self._read_timeout_s):
                    return

    async def GetModel(
        self, request: generation_pb2.GetModelRequest, context: Any
    ) -> generation_pb2.GetModelResponse:
        """Describes what is served."""
        self._guard.admit(grpc_approach(context), Permission.MODELS)
        return await self._generation.describe()
