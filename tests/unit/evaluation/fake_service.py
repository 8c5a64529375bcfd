"""A GenerationService without sockets: the next id is a fixed function of what came before.

Speaks the stub's interface, commits two ids a round for "ngram" and one for the rest, and can be
told to change one id or to fail.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import grpc.aio

from outrider.v1 import decoding_pb2, generation_pb2

VOCAB_SIZE = 97


def right_ids(text: str, count: int, seed: int = 0) -> tuple[int, ...]:
    """What the fake answers: a function of text and seed only."""
    ids: list[int] = []
    state = sum(text.encode()) + 31 * seed
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        ids.append(state % VOCAB_SIZE)
    return tuple(ids)


@dataclass
class FakeStub:
    """Stands in for the generated stub.

    Args:
        wrong: Method and position whose id is changed.
        failing_from: Number of requests after which each one fails.
    """

    wrong: tuple[str, int] | None = None
    failing_from: int | None = None
    requests: list[generation_pb2.GenerateRequest] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def Generate(
        self,
        request: generation_pb2.GenerateRequest,
        timeout: float,  # noqa: ASYNC109  # the stub's own parameter
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        self.requests.append(request)
        if self.failing_from is not None and len(self.requests) > self.failing_from:
            empty = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, empty, empty, "no worker")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            for response in self._responses(request):
                await asyncio.sleep(0)  # lets the other streams run, as a socket would
                yield response
        finally:
            self.running -= 1

    def _responses(
        self, request: generation_pb2.GenerateRequest
    ) -> list[generation_pb2.GenerateResponse]:
        method = request.speculation.method
        count = request.limits.max_new_tokens
        ids = list(right_ids(request.chat.messages[0].content, count, request.sampling.seed))
        if self.wrong is not None and self.wrong[0] == method:
            ids[self.wrong[1]] = (ids[self.wrong[1]] + 1) % VOCAB_SIZE
        size = 2 if method == "ngram" else 1
        responses = [
            generation_pb2.GenerateResponse(token_ids=ids[start : start + size], text="x")
            for start in range(0, count, size)
        ]
        last = responses[-1]
        last.finish_reason = decoding_pb2.FINISH_REASON_LENGTH
        last.usage.prompt_tokens, last.usage.completion_tokens = 5, count
        last.speculation_report.rounds = len(responses)
        last.speculation_report.drafted = len(responses)
        last.speculation_report.accepted = count - len(responses)
        return responses
