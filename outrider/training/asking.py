"""Asks a running service many things at once over its public gRPC API, patiently.

A cluster that restarts or is full for a while costs time, not the run: a failed request is asked
again. What is asked and what becomes of the answers is the caller's affair.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import grpc.aio

from outrider.evaluation.client import Answer, AskFailed, Stub, ask, connect
from outrider.v1 import decoding_pb2, generation_pb2

RETRY_AFTER_S = (1.0, 2.0, 5.0, 15.0, 60.0)
_HOPELESS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)


class Question(NamedTuple):
    """One request.

    Args:
        key: What the caller knows it by.
        token_ids: The prompt.
        max_new_tokens: Most tokens of the answer.
        temperature: 0 is greedy.
        top_k: Most likely tokens that are drawn from; 0 is all.
        seed: Of the sampling noise.
        stop_ids: Tokens that end the answer besides the target's own.
    """

    key: str
    token_ids: Sequence[int]
    max_new_tokens: int
    temperature: float
    top_k: int
    seed: int
    stop_ids: Sequence[int] = ()


def ask_all(
    address: str,
    questions: Iterable[Question],
    streams: int,
    method: str,
    on_answer: Callable[[Question, Answer], None],
) -> None:
    """Asks with a fixed number of streams; a finished one makes room for the next.

    Args:
        address: host:port of a gateway.
        questions: Taken in order.
        streams: At a time, at least 1.
        method: Draft method; empty: the service's.
        on_answer: Told of each answer as it ends.

    Raises:
        AskFailed: A request failed again and again.
    """
    asyncio.run(_ask_all(address, questions, streams, method, on_answer))


async def _ask_all(
    address: str,
    questions: Iterable[Question],
    streams: int,
    method: str,
    on_answer: Callable[[Question, Answer], None],
) -> None:
    waiting = iter(questions)

    async def run_lane(stub: Stub) -> None:
        for question in waiting:
            on_answer(question, await _ask_patiently(stub, _request(question, method)))

    async with connect(address) as stub:
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(streams):
                    lanes.create_task(run_lane(stub))
        except* AskFailed as group:
            failure = group.exceptions[0]
        else:
            return
    raise failure


async def _ask_patiently(stub: Stub, request: generation_pb2.GenerateRequest) -> Answer:
    for delay_s in RETRY_AFTER_S:
        try:
            return await ask(stub, request)
        except AskFailed as failure:
            cause = failure.__cause__
            if isinstance(cause, grpc.aio.AioRpcError) and cause.code() in _HOPELESS:
                raise
            await asyncio.sleep(delay_s)
    return await ask(stub, request)


def _request(question: Question, method: str) -> generation_pb2.GenerateRequest:
    return generation_pb2.GenerateRequest(
        token_ids=generation_pb2.TokenIds(ids=question.token_ids),
        sampling=decoding_pb2.Sampling(
            temperature=question.temperature, top_k=question.top_k, seed=question.seed
        ),
        limits=generation_pb2.Limits(
            max_new_tokens=question.max_new_tokens, stop_token_ids=question.stop_ids
        ),
        speculation=decoding_pb2.Speculation(method=method),
    )
