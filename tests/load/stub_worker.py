"""A draft worker without a model: rounds at an even pace, as many streams as come.

Runs as a process of its own, `python -m tests.load.stub_worker INTERVAL_MS`, so that what it costs
is not counted as the gateway's. Writes its port, and then lines of JSON: each second how many
rounds it has sent to streams that want no end, and how far each of those got when it ends.
"""

import asyncio
import json
import sys
from typing import Any

import grpc

from outrider.supervised import stop_event
from outrider.v1 import decoding_pb2, drafting_pb2, drafting_pb2_grpc
from tests.unit.gateway.tiny_tokenizer import EOS_ID, byte_id

CONTEXT_LIMIT = 1_000_000
ENDLESS_TOKENS = (
    100_000  # who wants so many gets ENDLESS_BLOCK in a round, to fill all buffers soon
)
ENDLESS_BLOCK = 100


class PacedDrafting(drafting_pb2_grpc.DraftingServiceServicer):
    """Commits the letter x, once in each round.

    Args:
        interval_s: Between two rounds of a stream.
    """

    def __init__(self, interval_s: float) -> None:
        self.endless_rounds = 0
        self._interval_s = interval_s
        self._token_id = byte_id(ord("x"))

    async def Draft(  # type: ignore[override]  # the stub knows generators only
        self, request: drafting_pb2.DraftRequest, context: Any
    ) -> None:
        """Streams until all tokens are committed or nobody listens."""
        asked, sent = request.limits.max_new_tokens, 0
        is_endless = asked >= ENDLESS_TOKENS
        now = asyncio.get_running_loop().time
        due = now()
        try:
            while sent < asked:
                count = min(ENDLESS_BLOCK if is_endless else 1, asked - sent)
                await context.write(self._round(sent, count, is_last=sent + count == asked))
                sent += count
                self.endless_rounds += is_endless
                due = max(due + self._interval_s, now())  # what was missed is not made up for
                await asyncio.sleep(due - now())
        except grpc.aio.InternalError:
            pass  # what `write` raises where the gateway has gone
        finally:
            if is_endless:
                print(json.dumps({"ended_after": sent}), flush=True)

    async def GetWorker(
        self, request: drafting_pb2.GetWorkerRequest, context: Any
    ) -> drafting_pb2.GetWorkerResponse:
        """Describes a worker for the tiny tokenizer."""
        return drafting_pb2.GetWorkerResponse(
            model="stub",
            context_limit=CONTEXT_LIMIT,
            vocab_size=300,
            eos_token_ids=[EOS_ID],
            methods=["none"],
            default_method="none",
            max_nodes=32,
            max_depth=8,
        )

    def _round(self, index: int, count: int, is_last: bool) -> drafting_pb2.DraftResponse:
        length = decoding_pb2.FINISH_REASON_LENGTH
        return drafting_pb2.DraftResponse(
            index=index,
            token_ids=[self._token_id] * count,
            finish_reason=length if is_last else decoding_pb2.FINISH_REASON_UNSPECIFIED,
            report=decoding_pb2.SpeculationReport(rounds=1, method="none"),
        )


async def _tell(drafting: PacedDrafting) -> None:
    while True:
        await asyncio.sleep(1)
        print(json.dumps({"endless_rounds": drafting.endless_rounds}), flush=True)


async def _serve(interval_s: float) -> None:
    stopping = stop_event({})
    drafting = PacedDrafting(interval_s)
    server = grpc.aio.server()
    drafting_pb2_grpc.add_DraftingServiceServicer_to_server(drafting, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    telling = asyncio.create_task(_tell(drafting))
    await stopping.wait()
    telling.cancel()
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]) / 1000))
