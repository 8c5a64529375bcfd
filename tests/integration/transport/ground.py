"""Where transport faults are played: a gateway process, its worker, and a healthy stream beside."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from outrider.api_keys import make_key
from outrider.key_file import key_line
from outrider.v1 import drafting_pb2
from tests.integration.gateway_process import RunningGateway, running
from tests.integration.gateway_stage import HOST, ScriptedDrafting
from tests.integration.healthy_stream import HealthyStream, PacedDrafting
from tests.unit.gateway.tiny_tokenizer import ids_of

MARK = "zanzibar"  # of what may not stand in a log
KEY, MODELS_KEY = make_key(), make_key()
MAX_BYTES = 2**16
SEND_TIMEOUT_S, READ_TIMEOUT_S = 0.5, 1.0
LONG = 400_000  # more tokens than the buffers between the processes take

_FLAGS = (
    *("--max-request-bytes", str(MAX_BYTES)),
    *("--send-timeout-s", str(SEND_TIMEOUT_S)),
    *("--read-timeout-s", str(READ_TIMEOUT_S)),
    *("--reflection", "false"),
)
_LINES = ";".join((key_line("alice", KEY), key_line("bob", MODELS_KEY, ["may=models"])))


class FaultsDrafting(PacedDrafting):
    """Some prompts say how they are answered; all others are answered at once.

    hold: with nothing; half: with one token and then nothing; long: with LONG tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.worker.context_limit = 2 * LONG
        self._scripts = {
            "hold": ScriptedDrafting(answer=ids_of("abc"), hold_after=0),
            "half": ScriptedDrafting(answer=ids_of("abc"), hold_after=1),
            "long": ScriptedDrafting(answer=ids_of("x") * LONG, block_size=4000),
        }

    async def _play(self, request: drafting_pb2.DraftRequest, context: Any) -> None:
        for prompt, played in self._scripts.items():
            if list(request.prompt_token_ids) == ids_of(prompt):
                await played._play(request, context)
                return
        await super()._play(request, context)


@dataclass
class Ground:
    """All that a case needs.

    Args:
        gateway: The process.
        drafting: Its worker.
        channel: A well-behaved client's.
        healthy: The stream.
    """

    gateway: RunningGateway
    drafting: FaultsDrafting
    channel: grpc.aio.Channel
    healthy: HealthyStream

    @property
    def generate(self) -> "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]":
        """The method, in bytes."""
        return self.channel.unary_stream("/outrider.v1.GenerationService/Generate")

    async def stands(self, case: str) -> None:
        """The process runs, and the healthy stream goes on."""
        assert self.gateway.is_alive, (case, self.gateway.log)
        await self.healthy.goes_on(case)

    async def seconds_until_free(self) -> float:
        """Time until no session but the healthy one is open on the worker."""
        began = time.monotonic()
        await self.drafting.wait_for_open(1)
        return time.monotonic() - began


def metadata(key: str = KEY) -> tuple[tuple[str, str], ...]:
    """Of a call with this key."""
    return (("authorization", f"Bearer {key}"),)


@asynccontextmanager
async def ground(model: Path) -> AsyncIterator[Ground]:
    """Opens the ground; at its end the stream must have been exact, and the log be clean."""
    drafting = FaultsDrafting()
    alone = (("grpc.use_local_subchannel_pool", 1),)
    async with running(drafting, model, _FLAGS, OUTRIDER_GATEWAY_API_KEY_LINES=_LINES) as gateway:
        address = f"{HOST}:{gateway.grpc_port}"
        async with grpc.aio.insecure_channel(address, options=alone) as channel:
            healthy = HealthyStream(channel, drafting, KEY)
            await healthy.goes_on("the first")
            yield Ground(gateway, drafting, channel, healthy)
            await healthy.ends()
            async with asyncio.timeout(5):
                await drafting.wait_for_open(0)
        assert gateway.is_alive
    log = "".join(gateway.log)
    assert MARK not in log
    assert "Traceback" not in log
    assert "failed unexpectedly" not in log
