"""A plain client of the public gRPC API for tests: requests out, all messages of a stream in."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from outrider.v1 import decoding_pb2, generation_pb2, generation_pb2_grpc

TIMEOUT_S = 60.0

Responses = list[generation_pb2.GenerateResponse]


class Client:
    """Calls one service.

    Args:
        address: Of the gateway's gRPC listener.
    """

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address)
        self.stub = generation_pb2_grpc.GenerationServiceStub(self.channel)

    def close(self) -> None:
        """Frees the connection."""
        self.channel.close()

    def start(self, request: generation_pb2.GenerateRequest, **options: Any) -> Any:
        """Starts a stream; iterate it, or cancel it."""
        return self.stub.Generate(request, timeout=TIMEOUT_S, **options)

    def generate(self, request: generation_pb2.GenerateRequest, **options: Any) -> Responses:
        """Runs a stream to its end."""
        return list(self.start(request, **options))

    def generate_together(
        self, requests: Sequence[generation_pb2.GenerateRequest], concurrency: int
    ) -> list[Responses]:
        """Runs streams with a fixed number in flight, in the order of the requests."""
        with ThreadPoolExecutor(concurrency) as pool:
            return list(pool.map(self.generate, requests))


def ids_request(
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    method: str = "ngram",
    *,
    ignore_eos: bool = False,
    stop: Sequence[str] = (),
    stop_token_ids: Sequence[int] = (),
    logprobs: bool = False,
    sampling: decoding_pb2.Sampling | None = None,
) -> generation_pb2.GenerateRequest:
    """A request of token ids; greedy unless `sampling` says otherwise."""
    return generation_pb2.GenerateRequest(
        token_ids=generation_pb2.TokenIds(ids=prompt_ids),
        sampling=sampling,
        limits=generation_pb2.Limits(
            max_new_tokens=max_new_tokens,
            stop=stop,
            stop_token_ids=stop_token_ids,
            ignore_eos=ignore_eos,
        ),
        speculation=decoding_pb2.Speculation(method=method),
        logprobs=logprobs,
    )


def seeded_requests(
    prompts: Sequence[Sequence[int]], max_new_tokens: int, method: str
) -> list[generation_pb2.GenerateRequest]:
    """A request for each prompt, drawn at temperature 1 with a seed of its own."""
    return [
        ids_request(
            ids,
            max_new_tokens,
            method,
            ignore_eos=True,
            sampling=decoding_pb2.Sampling(temperature=1.0, top_p=0.95, seed=place),
        )
        for place, ids in enumerate(prompts)
    ]


def ids_of(responses: Responses) -> list[int]:
    """All ids of a stream."""
    return [token_id for response in responses for token_id in response.token_ids]


def text_of(responses: Responses) -> str:
    """All text of a stream."""
    return "".join(response.text for response in responses)


def log_probs_of(responses: Responses) -> list[float]:
    """All log-probabilities of a stream."""
    return [value for response in responses for value in response.log_probs]


def finish_of(responses: Responses) -> str:
    """Why a stream ended; checks that only its last message says so, and that usage agrees."""
    *others, last = responses
    assert all(response.finish_reason == 0 for response in others)
    assert last.usage.completion_tokens == len(ids_of(responses))
    return decoding_pb2.FinishReason.Name(last.finish_reason).removeprefix("FINISH_REASON_")
