"""A GenerationService without sockets that answers token ids with token ids.

The answer is a fixed function of prompt and seed, and ends with the first stop id where there is
one.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import grpc.aio

from outrider.v1 import decoding_pb2, generation_pb2

VOCAB_SIZE = 97


def right_ids(request: generation_pb2.GenerateRequest) -> list[int]:
    """What the fake answers, without a stop id behind it."""
    state = sum(request.token_ids.ids) + 31 * request.sampling.seed
    ids = []
    for _ in range(request.limits.max_new_tokens):
        state = (state * 1103515245 + 12345) % 2**31
        ids.append(state % VOCAB_SIZE)
    return ids


@dataclass
class FakeStub:
    """Stands in for the generated stub.

    Args:
        failures: Status codes of the first requests, one each.
    """

    failures: list[grpc.StatusCode] = field(default_factory=list)
    requests: list[generation_pb2.GenerateRequest] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def Generate(
        self,
        request: generation_pb2.GenerateRequest,
        timeout: float,  # noqa: ASYNC109  # the stub's own parameter
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        self.requests.append(request)
        if self.failures:
            empty = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(self.failures.pop(0), empty, empty, "not now")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        for token_id in right_ids(request):
            await asyncio.sleep(0)  # lets the other streams run, as a socket would
            yield generation_pb2.GenerateResponse(token_ids=[token_id])
        self.running -= 1
        yield generation_pb2.GenerateResponse(
            finish_reason=decoding_pb2.FINISH_REASON_LENGTH
            if request.sampling.seed % 2
            else decoding_pb2.FINISH_REASON_STOP
        )
