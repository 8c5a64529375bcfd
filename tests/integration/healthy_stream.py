"""A stream that goes on a little with each case of a table, and must stay exact beside them all."""

import asyncio
from typing import Any

import grpc

from outrider.v1 import drafting_pb2, generation_pb2, generation_pb2_grpc
from tests.integration.gateway_stage import PATIENCE_S, ScriptedDrafting, limits, next_text, prompt
from tests.unit.gateway.tiny_tokenizer import ids_of

HEALTHY = "the healthy one goes on, a few letters for each case " * 4


class PacedDrafting(ScriptedDrafting):
    """The healthy stream gets a round for each permission, all others their answer at once."""

    def __init__(self) -> None:
        super().__init__(answer=ids_of("ok"))
        self.permissions = asyncio.Semaphore(0)
        self.healthy = ScriptedDrafting(answer=ids_of(HEALTHY))

    async def _play(self, request: drafting_pb2.DraftRequest, context: Any) -> None:
        if list(request.prompt_token_ids) != ids_of("healthy"):
            await super()._play(request, context)
            return
        paced = PacedContext(context, self.permissions)
        await self.healthy._play(request, paced)


class PacedContext:
    """Writes when it may."""

    def __init__(self, context: Any, permissions: asyncio.Semaphore) -> None:
        self._context, self._permissions = context, permissions

    async def write(self, response: drafting_pb2.DraftResponse) -> None:
        await self._permissions.acquire()
        await self._context.write(response)


class HealthyStream:
    """The stream, from its client's side.

    Args:
        channel: To the gateway.
        drafting: Its worker.
        key: API key; "": none is needed.
    """

    def __init__(self, channel: grpc.aio.Channel, drafting: PacedDrafting, key: str = "") -> None:
        stub: generation_pb2_grpc.GenerationServiceAsyncStub = (
            generation_pb2_grpc.GenerationServiceStub(channel)
        )
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        request: generation_pb2.GenerateRequest = prompt(
            "healthy", limits=limits(max_new_tokens=500)
        )
        self._call = stub.Generate(request, metadata=metadata)
        self._permissions = drafting.permissions
        self._heard = ""

    async def goes_on(self, case: str) -> None:
        """Lets it go one round on, and looks at what comes."""
        self._permissions.release()
        async with asyncio.timeout(PATIENCE_S):
            self._heard += await next_text(self._call)
        assert HEALTHY.startswith(self._heard), case

    async def ends(self) -> None:
        """Lets it go to its end."""
        for _ in HEALTHY:
            self._permissions.release()
        while self._heard != HEALTHY:
            self._heard += await next_text(self._call)
            assert HEALTHY.startswith(self._heard)
