"""Speculation changes nothing: the streams equal what the target alone generates (B13, B19)."""

import pytest

from outrider.v1 import decoding_pb2
from tests.e2e.streams import Client, Responses, ids_of, ids_request, seeded_requests
from tests.e2e.tiny_model import SENTENCES, TinyModel

LENGTH = 40
METHODS = ("none", "ngram")


@pytest.fixture(scope="module")
def prompts(tiny_model: TinyModel) -> list[list[int]]:
    """Short, long and repetitive ones; more than run at a time."""
    chats = [tiny_model.chat_ids(sentence) for sentence in SENTENCES]
    return [*chats, tiny_model.cycle().prompt_ids, chats[0][:1], chats[1] + chats[2], chats[3][:7]]


def accepted(streams: list[Responses]) -> int:
    return sum(responses[-1].speculation_report.accepted for responses in streams)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ignore_eos", [True, False])
def test_greedy_ids_equal_transformers(
    client: Client,
    tiny_model: TinyModel,
    prompts: list[list[int]],
    method: str,
    concurrency: int,
    ignore_eos: bool,
) -> None:
    requests = [ids_request(ids, LENGTH, method, ignore_eos=ignore_eos) for ids in prompts]
    streams = client.generate_together(requests, concurrency)
    wanted = [tiny_model.greedy(ids, LENGTH, ignore_eos=ignore_eos) for ids in prompts]
    assert [ids_of(responses) for responses in streams] == wanted
    assert (accepted(streams) > 0) == (method == "ngram")


def test_seeded_ids_are_equal_across_methods_and_batches(
    client: Client, prompts: list[list[int]]
) -> None:
    runs = {}
    for method in METHODS:
        for concurrency in (1, 8):
            requests = seeded_requests(prompts, LENGTH, method)
            streams = client.generate_together(requests, concurrency)
            runs[method, concurrency] = [ids_of(responses) for responses in streams]
            assert (accepted(streams) > 0) == (method == "ngram")
    for ids in runs.values():
        assert ids == runs["none", 1]


def test_another_seed_gives_another_text(client: Client, prompts: list[list[int]]) -> None:
    texts = {
        tuple(
            ids_of(
                client.generate(
                    ids_request(
                        prompts[0],
                        LENGTH,
                        sampling=decoding_pb2.Sampling(temperature=1.0, seed=seed),
                    )
                )
            )
        )
        for seed in (1, 2, 2**64 - 1)
    }
    assert len(texts) == 3


def test_a_tiny_temperature_is_greedy(client: Client, tiny_model: TinyModel) -> None:
    prompt_ids = tiny_model.chat_ids(SENTENCES[0])
    sampling = decoding_pb2.Sampling(temperature=1e-9, seed=5)
    request = ids_request(prompt_ids, LENGTH, ignore_eos=True, sampling=sampling)
    assert ids_of(client.generate(request)) == tiny_model.greedy(
        prompt_ids, LENGTH, ignore_eos=True
    )
