"""The service that routers call. Translates, and decides nothing.

Errors pass through as they are: `gateway/interceptors.py` turns them into statuses.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2, vllm_engine_pb2_grpc

from gateway.approaches import grpc_approach
from gateway.generation import Generation
from gateway.guard import Caller, Guard
from gateway.http_messages import joined_choices
from gateway.timely_write import write_in_time
from gateway.vllm_engine.messages import abort_message, complete, streamed
from gateway.vllm_engine.requests import to_request
from gateway.vllm_engine.tokenizer_files import chunks_of, tokenizer_archive
from outrider.api_keys import Permission
from outrider.protocol.errors import NotSupported
from outrider.v1 import generation_pb2

SERVER_TYPE = "outrider"
SERVICE = vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"].full_name


class VllmEngineServicer(vllm_engine_pb2_grpc.VllmEngineServicer):  # type: ignore[misc]
    """`vllm.grpc.engine.VllmEngine` over this service.

    Args:
        generation: Does the work.
        guard: Lets callers in.
        not_serving: Why requests cannot be served now; "" where they can.
        loads: How many requests run, and how many wait.
        folder: Of the target's tokenizer.
        read_timeout_s: How long a client may read nothing, seconds.
    """

    def __init__(
        self,
        generation: Generation,
        guard: Guard,
        not_serving: Callable[[], str],
        loads: Callable[[], tuple[int, int]],
        folder: Path,
        read_timeout_s: float,
    ) -> None:
        self._generation, self._guard = generation, guard
        self._not_serving, self._loads, self._folder = not_serving, loads, folder
        self._read_timeout_s = read_timeout_s
        self._started = time.monotonic()
        self._aborts: defaultdict[tuple[str, str], set[asyncio.Event]] = defaultdict(set)

    async def Generate(self, request: vllm_engine_pb2.GenerateRequest, context: Any) -> None:
        """Streams an answer, or sends it whole where `stream` is false."""
        caller = self._admit(context, Permission.GENERATE)
        key = (caller.tenant, request.request_id)
        aborted = asyncio.Event()
        self._aborts[key].add(aborted)
        answering = asyncio.ensure_future(self._answer(request, caller, context))
        aborting = asyncio.ensure_future(aborted.wait())
        try:
            await asyncio.wait({answering, aborting}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            else:
                await _cancelled(answering)
                await context.write(abort_message())
        finally:
            await asyncio.gather(_cancelled(answering), _cancelled(aborting))
            self._aborts[key].discard(aborted)
            if not self._aborts[key]:
                del self._aborts[key]

    async def _answer(
        self, request: vllm_engine_pb2.GenerateRequest, caller: Caller, context: Any
    ) -> None:
        kept: list[generation_pb2.GenerateResponse] = []
        messages = self._generation.generate(
            to_request(request), context.time_remaining(), "", caller
        )
        async with aclosing(messages):
            async for message in messages:
                if not request.stream:
                    kept.append(message)
                    continue
                for part in streamed(message):
                    if not await write_in_time(context, part, messages, self._read_timeout_s):
                        return
        for whole in joined_choices(kept):
            await context.write(complete(whole, with_tokens=True))

    async def Abort(
        self, request: vllm_engine_pb2.AbortRequest, context: Any
    ) -> vllm_engine_pb2.AbortResponse:
        """Ends requests of the same tenant by their names; unknown ones are passed over."""
        caller = self._admit(context, Permission.MODELS)
        for request_id in request.request_ids:
            for aborted in self._aborts.get((caller.tenant, request_id), ()):
                aborted.set()
        return vllm_engine_pb2.AbortResponse()

    async def HealthCheck(
        self, request: vllm_engine_pb2.HealthCheckRequest, context: Any
    ) -> vllm_engine_pb2.HealthCheckResponse:
        """Whether a request can be served now, and why not."""
        reason = self._not_serving()
        return vllm_engine_pb2.HealthCheckResponse(healthy=not reason, message=reason)

    async def GetModelInfo(
        self, request: vllm_engine_pb2.GetModelInfoRequest, context: Any
    ) -> vllm_engine_pb2.GetModelInfoResponse:
        """What is served."""
        self._admit(context, Permission.MODELS)
        model = await self._generation.describe()
        return vllm_engine_pb2.GetModelInfoResponse(
            model_path=model.model,
            served_model_name=model.model,
            is_generation=True,
            max_context_length=model.context_limit,
            max_req_input_len=model.context_limit,
            vocab_size=model.vocab_size,
            eos_token_ids=model.eos_token_ids,
        )

    async def GetServerInfo(
        self, request: vllm_engine_pb2.GetServerInfoRequest, context: Any
    ) -> vllm_engine_pb2.GetServerInfoResponse:
        """This process."""
        self._admit(context, Permission.MODELS)
        return vllm_engine_pb2.GetServerInfoResponse(
            active_requests=sum(self._loads()),
            uptime_seconds=time.monotonic() - self._started,
            server_type=SERVER_TYPE,
            data_parallel_size=1,
        )

    async def GetLoads(
        self, request: vllm_engine_pb2.GetLoadsRequest, context: Any
    ) -> vllm_engine_pb2.GetLoadsResponse:
        """How many requests run and wait."""
        self._admit(context, Permission.MODELS)
        running, waiting = self._loads()
        load = vllm_engine_pb2.SchedulerLoad(
            num_running_reqs=running, num_waiting_reqs=waiting, num_total_reqs=running + waiting
        )
        return vllm_engine_pb2.GetLoadsResponse(
            timestamp=datetime.now(UTC).isoformat(),
            version=version("outrider"),
            dp_rank_count=1,
            loads=[load],
        )

    async def GetTokenizer(self, request: common_pb2.GetTokenizerRequest, context: Any) -> None:
        """Sends the tokenizer's files."""
        self._admit(context, Permission.MODELS)
        archive = await asyncio.to_thread(tokenizer_archive, self._folder)
        for part in chunks_of(archive):
            await context.write(part)

    def _admit(self, context: Any, permission: Permission) -> Caller:
        return self._guard.admit(grpc_approach(context), permission)

    async def Embed(self, request: vllm_engine_pb2.EmbedRequest, context: Any) -> None:
        """Not done here."""
        raise NotSupported("Embed", "this service generates text only")

    async def FlushCache(self, request: common_pb2.FlushCacheRequest, context: Any) -> None:
        """Not done here."""
        raise NotSupported("FlushCache", "cached rows are given up where the room is needed")

    async def StartProfile(self, request: common_pb2.StartProfileRequest, context: Any) -> None:
        """Not done here."""
        raise NotSupported("StartProfile", "traces and metrics say where time goes")

    async def StopProfile(self, request: common_pb2.StopProfileRequest, context: Any) -> None:
        """Not done here."""
        raise NotSupported("StopProfile", "traces and metrics say where time goes")

    async def SubscribeKvEvents(
        self, request: common_pb2.SubscribeKvEventsRequest, context: Any
    ) -> None:
        """Not done here."""
        raise NotSupported("SubscribeKvEvents", "no events of the KV cache are published")


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """Ends a task, whose end does not matter any more."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
