"""Asks a service over its public gRPC API and keeps what came, with the client's own clock.

Knows nothing of what the answers should be.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import grpc.aio

from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 1800.0  # 8 long answers in fp32 on a small machine
MAX_MESSAGE_BYTES = 16 * 2**20
MAX_RECONNECT_MS = 1000
# What a client of several gateways should set: one that drains or is gone is passed over. Tried
# again is only what was refused before its first message. CANCELLED, where the client did not
# cancel, is what gRPC's runtime says of calls that its server had not taken up when it stopped.
SPREAD = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{"service": "outrider.v1.GenerationService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
            },
        }
    ],
}

# The types exist in the generated stubs' .pyi only.
Stub: TypeAlias = "generation_pb2_grpc.GenerationServiceAsyncStub"
AnyStub: TypeAlias = "generation_pb2_grpc.GenerationServiceAsyncStub | KeyedStub"
Metadata = tuple[tuple[str, str], ...]


class KeyedStub:
    """A stub whose calls carry metadata, such as a key; otherwise as the stub it is made of.

    Args:
        stub: Makes the calls.
        metadata: Goes with each of them.
    """

    def __init__(self, stub: Stub, metadata: Metadata) -> None:
        self._stub, self._metadata = stub, metadata

    def Generate(
        self, request: generation_pb2.GenerateRequest, *, timeout: float
    ) -> AsyncIterable[generation_pb2.GenerateResponse]:
        """The call of that name."""
        return self._stub.Generate(request, timeout=timeout, metadata=self._metadata)


class AskFailed(Exception):
    """The service did not answer, refused a request or failed; the message says how."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished stream.

    Args:
        token_ids: All ids.
        text: All text.
        prompt_tokens: As the service counted them.
        finish_reason: Name of the enum value.
        first_count: Ids of the first message that carried any.
        first_s: From the request to that message, seconds.
        last_s: From the request to the last message, seconds.
        report: What speculation did.
        asked_s: When the request was sent, on the client's clock.
        message_s: When each message with ids came, on the same clock.
        message_tokens: Ids of each of those.
    """

    token_ids: tuple[int, ...]
    text: str
    prompt_tokens: int
    finish_reason: str
    first_count: int
    first_s: float
    last_s: float
    report: decoding_pb2.SpeculationReport
    asked_s: float = 0.0
    message_s: tuple[float, ...] = ()
    message_tokens: tuple[int, ...] = ()


@asynccontextmanager
async def connect(*addresses: str) -> AsyncIterator[Stub]:
    """A stub on a service that answers.

    Args:
        addresses: host:port of its gateway; of several gateways ipv4:port, which take turns.

    Raises:
        AskFailed: Nothing answers within five seconds.
    """
    options: list[tuple[str, str | int]] = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)]
    address = addresses[0]
    if len(addresses) > 1:
        address = f"ipv4:{','.join(addresses)}"
        options.append(("grpc.service_config", json.dumps(SPREAD)))
        options.append(("grpc.max_reconnect_backoff_ms", MAX_RECONNECT_MS))
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        stub: Stub = generation_pb2_grpc.GenerationServiceStub(channel)
        request = generation_pb2.GetModelRequest()
        try:
            await stub.GetModel(request, timeout=CONNECT_TIMEOUT_S, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise AskFailed(f"{address}: {error.code().name}: {error.details()}") from error
        yield stub


def chat_request(
    text: str,
    method: str,
    max_new_tokens: int,
    sampling: decoding_pb2.Sampling | None = None,
) -> generation_pb2.GenerateRequest:
    """One user message; greedy unless `sampling` says otherwise."""
    message = generation_pb2.ChatMessage(role="user", content=text)
    return generation_pb2.GenerateRequest(
        chat=generation_pb2.Chat(messages=[message]),
        sampling=sampling or decoding_pb2.Sampling(temperature=0.0),
        limits=generation_pb2.Limits(max_new_tokens=max_new_tokens),
        speculation=decoding_pb2.Speculation(method=method),
    )


async def ask(
    stub: AnyStub,
    request: generation_pb2.GenerateRequest,
    on_message: Callable[[], None] = lambda: None,
) -> Answer:
    """Runs one request to its end.

    Args:
        stub: The service.
        request: The request.
        on_message: Told of each message with ids.

    Raises:
        AskFailed: The service refused it, failed, or ended without a reason.
    """
    token_ids: list[int] = []
    text = ""
    message_s: list[float] = []
    message_tokens: list[int] = []
    last = generation_pb2.GenerateResponse()
    start = time.monotonic()
    try:
        async for response in stub.Generate(request, timeout=ANSWER_TIMEOUT_S):
            if response.token_ids:
                message_s.append(time.monotonic())
                message_tokens.append(len(response.token_ids))
                on_message()
            token_ids.extend(response.token_ids)
            text += response.text
            last = response
    except grpc.aio.AioRpcError as error:
        raise AskFailed(f"{error.code().name}: {error.details()}") from error
    last_s = time.monotonic() - start
    if last.finish_reason == decoding_pb2.FINISH_REASON_UNSPECIFIED:
        raise AskFailed("the stream ended without a finish reason")
    return Answer(
        token_ids=tuple(token_ids),
        text=text,
        prompt_tokens=last.usage.prompt_tokens,
        finish_reason=decoding_pb2.FinishReason.Name(last.finish_reason),
        first_count=message_tokens[0] if message_tokens else 0,
        first_s=message_s[0] - start if message_s else 0.0,
        last_s=last_s,
        report=last.speculation_report,
        asked_s=start,
        message_s=tuple(message_s),
        message_tokens=tuple(message_tokens),
    )


async def ask_all(
    stub: AnyStub,
    requests: Sequence[generation_pb2.GenerateRequest],
    concurrency: int,
    on_answer: Callable[[int, Answer], None],
) -> None:
    """Runs requests with a fixed number in flight; a finished one makes room for the next.

    Args:
        stub: Of `connect`.
        requests: Taken in order.
        concurrency: Streams at a time, at least 1.
        on_answer: Told index and answer as each one ends.

    Raises:
        AskFailed: Of the first failure; the other streams are cancelled.
    """
    waiting = iter(enumerate(requests))

    async def run_lane() -> None:
        for index, request in waiting:
            on_answer(index, await ask(stub, request))

    try:
        async with asyncio.TaskGroup() as lanes:
            for _ in range(concurrency):
                lanes.create_task(run_lane())
    except* AskFailed as group:
        failure = group.exceptions[0]
    else:
        return
    raise failure
