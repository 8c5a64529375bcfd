"""Where a stream ends: limits, end of sequence, stop tokens and strings in the middle of a block.

BUGS B1-B4, B6-B8, B11 and B12. The prompt of a cycle makes n-gram drafts of several tokens that
are all accepted, so that ends fall inside a block; each test checks that they did.
"""

import math

import pytest

from tests.e2e.streams import (
    Client,
    Responses,
    finish_of,
    ids_of,
    ids_request,
    log_probs_of,
    text_of,
)
from tests.e2e.tiny_model import CONTEXT_LIMIT, Cycle, TinyModel

METHODS = ("none", "ngram")


@pytest.fixture(scope="module")
def cycle(tiny_model: TinyModel) -> Cycle:
    """A prompt whose continuation is drafted right."""
    return tiny_model.cycle()


def was_in_a_block(responses: Responses) -> bool:
    """True where the last ids came with others of the same round."""
    counts = [len(response.token_ids) for response in responses if response.token_ids]
    return counts[-1] > 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [1, 2, 7])
def test_exactly_the_wanted_number_of_tokens(
    client: Client, cycle: Cycle, method: str, count: int
) -> None:
    responses = client.generate(
        ids_request(cycle.prompt_ids, count, method, ignore_eos=True, logprobs=True)
    )
    assert ids_of(responses) == cycle.next_ids[:count]
    assert len(log_probs_of(responses)) == count
    assert finish_of(responses) == "LENGTH"
    assert responses[-1].usage.prompt_tokens == len(cycle.prompt_ids)


def test_no_tokens_are_a_valid_wish(client: Client, cycle: Cycle) -> None:
    responses = client.generate(ids_request(cycle.prompt_ids, 0))
    assert ids_of(responses) == []
    assert finish_of(responses) == "LENGTH"


def test_the_blocks_of_these_tests_have_several_tokens(client: Client, cycle: Cycle) -> None:
    responses = client.generate(ids_request(cycle.prompt_ids, 24, ignore_eos=True))
    assert responses[-1].speculation_report.tokens_per_round > 3


@pytest.mark.parametrize("method", METHODS)
def test_an_end_of_sequence_in_a_block_ends_everything(
    client: Client, tiny_model: TinyModel, cycle: Cycle, method: str
) -> None:
    responses = client.generate(ids_request(cycle.prompt_ids, 24, method, logprobs=True))
    assert ids_of(responses) == cycle.next_ids[:3]
    assert ids_of(responses)[-1] in tiny_model.network.config.eos_token_id
    assert len(log_probs_of(responses)) == 3
    assert finish_of(responses) == "STOP"
    assert was_in_a_block(responses) == (method == "ngram")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stop_token_in_a_block_ends_everything(
    client: Client, cycle: Cycle, method: str, place: int
) -> None:
    stop_id = cycle.next_ids[place]
    responses = client.generate(
        ids_request(
            cycle.prompt_ids, 5, method, ignore_eos=True, stop_token_ids=[stop_id], logprobs=True
        )
    )
    assert ids_of(responses) == cycle.next_ids[: place + 1]
    assert len(log_probs_of(responses)) == place + 1
    assert finish_of(responses) == "STOP"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_a_stop_string_in_a_block_cuts_text_ids_and_log_probs_at_one_token(
    client: Client, tiny_model: TinyModel, cycle: Cycle, method: str, place: int
) -> None:
    ids = cycle.next_ids[: place + 1]
    before = tiny_model.text(ids[:-1])
    piece = tiny_model.text(ids)[len(before) :]
    # The end of one token and the beginning of the next: not a token of its own.
    stop = before[-1] + piece[:1]
    assert tiny_model.text(ids).find(stop) == len(before) - 1, "the string appears once, here"
    responses = client.generate(
        ids_request(cycle.prompt_ids, 24, method, ignore_eos=True, stop=[stop], logprobs=True)
    )
    assert text_of(responses) == before[:-1]
    assert ids_of(responses) == ids
    assert len(log_probs_of(responses)) == len(ids)
    assert finish_of(responses) == "STOP"


def test_the_earliest_end_wins_over_a_limit_in_the_same_block(client: Client, cycle: Cycle) -> None:
    request = ids_request(cycle.prompt_ids, 5, ignore_eos=True, stop_token_ids=[cycle.next_ids[3]])
    responses = client.generate(request)
    assert (len(ids_of(responses)), finish_of(responses)) == (4, "STOP")
    request = ids_request(cycle.prompt_ids, 3, ignore_eos=True, stop_token_ids=[cycle.next_ids[3]])
    responses = client.generate(request)
    assert (len(ids_of(responses)), finish_of(responses)) == (3, "LENGTH")


def test_log_probs_are_the_targets_and_do_not_depend_on_the_method(
    client: Client, cycle: Cycle
) -> None:
    plain, drafted = (
        client.generate(ids_request(cycle.prompt_ids, 12, method, ignore_eos=True, logprobs=True))
        for method in METHODS
    )
    values = log_probs_of(plain)
    assert values == pytest.approx(log_probs_of(drafted), abs=1e-4)
    assert all(math.isfinite(value) and value <= 0 for value in values)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("room", [1, 2, 5])
def test_a_prompt_near_the_context_limit_ends_exactly_there(
    client: Client, tiny_model: TinyModel, cycle: Cycle, method: str, room: int
) -> None:
    length = CONTEXT_LIMIT - len(cycle.prompt_ids)
    whole = cycle.prompt_ids + tiny_model.greedy(cycle.prompt_ids, length, ignore_eos=True)
    prompt_ids = whole[: CONTEXT_LIMIT - room]
    request = ids_request(prompt_ids, 1, method, ignore_eos=True)
    request.limits.ClearField("max_new_tokens")  # as many as fit
    responses = client.generate(request)
    assert ids_of(responses) == whole[CONTEXT_LIMIT - room :]
    assert finish_of(responses) == "LENGTH"
