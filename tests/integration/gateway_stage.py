"""A gateway on real sockets, with a scripted draft worker behind it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.rpc import status_pb2

from gateway.admission import Admission
from gateway.discovery import parse_sources
from gateway.draft_client import DraftClient
from gateway.draft_workers import DraftWorkers
from gateway.gate import Gate
from gateway.generation import Generation, GenerationLimits
from gateway.guard import Guard, GuardLimits
from gateway.http_api import create_app
from gateway.http_calls import HttpCalls
from gateway.listeners import GrpcLimits, GrpcListener, HttpListener
from gateway.placing import Placing
from gateway.playground.routes import add_playground
from gateway.quotas import Quotas
from gateway.readiness import Readiness
from gateway.requests import RequestLimits
from gateway.servicer import GenerationServicer
from gateway.tokenization import PromptTokenizer
from gateway.vllm_engine.servicer import VllmEngineServicer
from gateway.vllm_engine.serving import add_vllm_engine
from outrider.api_keys import Access
from outrider.discovery import Discovery
from outrider.grpc_status import abort
from outrider.protocol.errors import OutriderError
from outrider.telemetry.metrics import GatewayMetrics
from outrider.tls import Tls
from outrider.v1 import (
    decoding_pb2,
    drafting_pb2,
    drafting_pb2_grpc,
    generation_pb2,
    generation_pb2_grpc,
)
from tests.unit.gateway.tiny_tokenizer import EOS_ID, ids_of, tiny_prompt_tokenizer

HOST = "127.0.0.1"
ANSWER_TIMEOUT_S = 1.0
PATIENCE_S = 5.0  # only ever waited for by a test that fails
REQUEST_LIMITS = RequestLimits(default_max_new_tokens=64, max_messages=100, max_prompt_chars=20_000)


@dataclass
class ScriptedDrafting(drafting_pb2_grpc.DraftingServiceServicer):
    """Commits one answer in rounds of a fixed size, whatever the prompt. Beside each token it lists
    that token and the next id.

    Args:
        answer: Token ids; an end of sequence follows.
        block_size: Ids per round.
        hold_after: Rounds after which it says nothing more until `release` is set.
        error: Raised after `hold_after` rounds instead.
        skip: Added to each index, to play a faulty worker.
        worker: Its description.
        not_ready: Raised by GetWorker.
        is_hung: True: GetWorker takes questions and never answers.
    """

    answer: Sequence[int] = ()
    block_size: int = 1
    hold_after: int | None = None
    error: OutriderError | None = None
    skip: int = 0
    worker: drafting_pb2.GetWorkerResponse = field(
        default_factory=lambda: drafting_pb2.GetWorkerResponse(
            model="tiny",
            context_limit=512,
            vocab_size=300,
            eos_token_ids=[EOS_ID],
            methods=["none", "ngram"],
            default_method="ngram",
            max_nodes=32,
            max_depth=8,
        )
    )
    not_ready: OutriderError | None = None
    is_hung: bool = False

    def __post_init__(self) -> None:
        self.requests: list[drafting_pb2.DraftRequest] = []
        self.traceparents: list[str] = []
        self.time_limits: list[float] = []
        self.open_count = 0
        self.cancelled_count = 0
        self.release = asyncio.Event()
        self._changed = asyncio.Condition()

    async def Draft(  # type: ignore[override]
        self, request: drafting_pb2.DraftRequest, context: Any
    ) -> None:
        metadata = dict(context.invocation_metadata())
        self.requests.append(request)
        self.traceparents.append(metadata.get("traceparent", ""))
        self.time_limits.append(context.time_remaining())
        await self._count(+1)
        try:
            await self._play(request, context)
        except (asyncio.CancelledError, grpc.aio.InternalError):  # waiting, or writing
            self.cancelled_count += 1
            raise asyncio.CancelledError from None
        finally:
            await self._count(-1)

    async def _play(self, request: drafting_pb2.DraftRequest, context: Any) -> None:
        ids = [*self.answer, EOS_ID][: request.limits.max_new_tokens]
        reason = (
            decoding_pb2.FINISH_REASON_STOP
            if ids[-1] == EOS_ID
            else decoding_pb2.FINISH_REASON_LENGTH
        )
        for number, start in enumerate(range(0, len(ids), self.block_size)):
            if number == self.hold_after:
                if self.error is not None:
                    await abort(context, self.error)
                await self.release.wait()
            block = ids[start : start + self.block_size]
            is_last = start + len(block) == len(ids)
            response = drafting_pb2.DraftResponse(
                index=start + self.skip,
                token_ids=block,
                log_probs=[-0.5 * (start + i) for i in range(len(block))]
                if request.logprobs
                else [],
                top_log_probs=[
                    decoding_pb2.TopLogProbs(token_ids=[one, one + 1], log_probs=[-0.5, -1.5])
                    for one in block
                    if request.top_logprobs
                ],
                accepted_count=len(block) - 1,
                finish_reason=reason if is_last else decoding_pb2.FINISH_REASON_UNSPECIFIED,
                report=decoding_pb2.SpeculationReport(rounds=number + 1, method="ngram"),
            )
            if request.report_trees:
                before = [*request.prompt_token_ids, *ids[:start]]
                response.tree.CopyFrom(self.tree(before[-1], block))
            await context.write(response)

    def tree(self, root: int, block: Sequence[int]) -> decoding_pb2.RoundTree:
        """A chain of the accepted tokens, and one more candidate behind the root."""
        count = len(block)
        return decoding_pb2.RoundTree(
            token_ids=[root, *block[:-1], EOS_ID + 1],
            parents=[*range(-1, count - 1), 0],
            accepted_indices=range(1, count),
        )

    async def GetWorker(
        self, request: drafting_pb2.GetWorkerRequest, context: Any
    ) -> drafting_pb2.GetWorkerResponse:
        if self.is_hung:
            await asyncio.Event().wait()
        if self.not_ready is not None:
            await abort(context, self.not_ready)
        return self.worker

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.open_count += change
            self._changed.notify_all()

    async def wait_for_open(self, count: int) -> None:
        """Returns when so many sessions are open."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self.open_count == count)


@dataclass
class Stage:
    """A running gateway and the way to it."""

    drafting: ScriptedDrafting
    generation: Generation
    readiness: Readiness
    metrics: GatewayMetrics
    channel: grpc.aio.Channel
    http: httpx.AsyncClient
    grpc_port: int
    http_port: int
    draft_server: grpc.aio.Server
    workers: DraftWorkers
    gate: Gate
    quotas: Quotas
    http_listener: HttpListener

    @property
    def stub(self) -> "generation_pb2_grpc.GenerationServiceAsyncStub":
        """A client of the public service."""
        return generation_pb2_grpc.GenerationServiceStub(self.channel)

    @property
    def http_connections(self) -> list[Any]:
        """Connections that the HTTP server has not got rid of."""
        return list(self.http_listener._server.server_state.connections)

    def metric(self, name: str, **labels: str) -> float:
        """A sample's value now; 0 where there is none."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


async def start_drafting(
    drafting: ScriptedDrafting, port: int = 0, tls: Tls | None = None
) -> tuple[grpc.aio.Server, int]:
    """Serves a scripted worker; on a free port where none is named."""
    server = grpc.aio.server()
    drafting_pb2_grpc.add_DraftingServiceServicer_to_server(drafting, server)
    if tls is None:
        port = server.add_insecure_port(f"{HOST}:{port}")
    else:
        port = server.add_secure_port(f"{HOST}:{port}", tls.grpc_credentials())
    await server.start()
    return server, port


@asynccontextmanager
async def stage(
    drafting: ScriptedDrafting,
    *,
    tokenizer: PromptTokenizer | None = None,
    max_running: int = 8,
    max_queued: int = 8,
    max_deadline_s: float = 60.0,
    max_request_bytes: int = 64 * 1024,
    reflection_enabled: bool = True,
    access: Access | None = None,
    guard_limits: GuardLimits | None = None,
    read_timeout_s: float = 30.0,
    send_timeout_s: float = 10.0,
    connection_age_s: float = 0.0,
    tls: Tls | None = None,
    failover_timeout_s: float = 0.0,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
    others: Sequence[ScriptedDrafting] = (),
    vllm_folder: Path | None = None,
) -> AsyncIterator[Stage]:
    """Starts everything on free ports and ends it again."""
    served = [await start_drafting(one) for one in (drafting, *others)]
    draft_server = served[0][0]
    tokenizer = tokenizer or tiny_prompt_tokenizer()
    metrics = GatewayMetrics()
    sources = parse_sources(",".join(f"{HOST}:{port}" for _, port in served))

    def open_client(address: str) -> DraftClient:
        return DraftClient(address, tokenizer, answer_timeout_s)

    async with DraftWorkers(Discovery(sources), open_client, metrics) as workers:
        placing = Placing(workers, metrics, failover_timeout_s)
        gate = Gate(Admission(max_running, max_queued, max_queued_bytes=2**20), metrics)
        quotas = Quotas()
        guard = Guard(access or Access(), metrics, guard_limits, quotas)
        limits = GenerationLimits(REQUEST_LIMITS, max_deadline_s)
        generation = Generation(tokenizer, workers, placing, gate, metrics, limits, guard.charge)
        servicer = GenerationServicer(generation, guard, read_timeout_s)
        grpc_limits = GrpcLimits(
            max_request_bytes, send_timeout_s, connection_age_s, max_deadline_s
        )
        grpc_listener = GrpcListener(servicer, reflection_enabled, grpc_limits, tls)
        readiness = Readiness(workers, grpc_listener.show_readiness)
        if vllm_folder is not None:
            engine = VllmEngineServicer(
                generation,
                guard,
                lambda: readiness.reason,
                lambda: gate.counts,
                vllm_folder,
                read_timeout_s,
            )
            add_vllm_engine(grpc_listener, engine)
        calls = HttpCalls(generation, guard, max_request_bytes, read_timeout_s, send_timeout_s)
        app = create_app(calls, readiness, metrics)
        add_playground(app)
        http_listener = HttpListener(app, tls, read_timeout_s, send_timeout_s)
        grpc_port = await grpc_listener.start(HOST, 0)
        http_port = await http_listener.start(HOST, 0)
        try:
            async with (
                grpc.aio.insecure_channel(f"{HOST}:{grpc_port}") as channel,
                httpx.AsyncClient(
                    base_url=f"http://{HOST}:{http_port}", timeout=PATIENCE_S
                ) as http,
            ):
                yield Stage(
                    drafting,
                    generation,
                    readiness,
                    metrics,
                    channel,
                    http,
                    grpc_port,
                    http_port,
                    draft_server,
                    workers,
                    gate,
                    quotas,
                    http_listener,
                )
        finally:
            await http_listener.stop(0)
            await grpc_listener.stop(0)
            for server, _ in served:
                await server.stop(0)


def script(text: str, block_size: int = 1, **options: Any) -> ScriptedDrafting:
    """A worker that answers with this text."""
    return ScriptedDrafting(answer=ids_of(text), block_size=block_size, **options)


def prompt(text: str = "hello", **fields: Any) -> generation_pb2.GenerateRequest:
    """A request; the default prompt is one token."""
    return generation_pb2.GenerateRequest(prompt=text, **fields)


def limits(**fields: Any) -> generation_pb2.Limits:
    """Limits of a request."""
    return generation_pb2.Limits(**fields)


async def answer(
    on: Stage,
    request: generation_pb2.GenerateRequest,
    timeout_s: float | None = None,
    metadata: Mapping[str, str] | None = None,
) -> list[generation_pb2.GenerateResponse]:
    """All messages, over gRPC."""
    call = on.stub.Generate(request, timeout=timeout_s, metadata=tuple((metadata or {}).items()))
    return [message async for message in call]


async def grpc_refusal(
    on: Stage, request: generation_pb2.GenerateRequest, timeout_s: float | None = None
) -> grpc.aio.AioRpcError:
    """The status that ends a call which must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await answer(on, request, timeout_s)
    return caught.value


def rich_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    """The google.rpc.Status of a failed call."""
    metadata = dict(error.trailing_metadata())
    return status_pb2.Status.FromString(metadata["grpc-status-details-bin"])


async def events(response: httpx.Response) -> list[Any]:
    """Payloads of all events, "[DONE]" as text."""
    payloads = []
    async for line in response.aiter_lines():
        if line:
            assert line.startswith("data: ")
            data = line.removeprefix("data: ")
            payloads.append(data if data == "[DONE]" else json.loads(data))
    return payloads


async def next_text(
    call: "grpc.aio.UnaryStreamCall[Any, generation_pb2.GenerateResponse]",
) -> str:
    """Text of the next message, which must come."""
    message = await call.read()
    assert isinstance(message, generation_pb2.GenerateResponse)
    return message.text
