import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from outrider.modeling.noise import gumbel
from outrider.modeling.token_choice import (
    filtered_scores,
    greedy_tokens,
    likely_token,
    log_prob,
    sampled_token,
    top_log_probs,
)
from outrider.protocol import sampling_noise
from outrider.protocol.decoding import Sampling


def kept(logits: list[float], **options: float) -> set[int]:
    sampling = Sampling(temperature=options.pop("temperature", 1.0), **options)  # type: ignore[arg-type]
    return set(filtered_scores(torch.tensor(logits), sampling)[1].tolist())


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**31))
def test_torch_and_numpy_give_the_same_noise(seed, position):
    tokens = np.arange(0, 60_000, 997)
    ours = gumbel(seed, position, torch.from_numpy(tokens)).numpy()
    np.testing.assert_allclose(ours, sampling_noise.gumbel(seed, position, tokens), rtol=1e-13)


@given(st.data())
@settings(deadline=None)
def test_filters_keep_what_transformers_keeps(data):
    """Random logits without ties, each filter alone and all together."""
    seed = data.draw(st.integers(0, 10_000))
    logits = torch.randn(40, generator=torch.Generator().manual_seed(seed)) * 3
    temperature = data.draw(st.sampled_from([0.3, 1.0, 1.7]))
    top_k = data.draw(st.sampled_from([0, 1, 5, 40, 1000]))
    top_p = data.draw(st.sampled_from([1.0, 0.95, 0.5, 0.1]))
    min_p = data.draw(st.sampled_from([0.0, 0.02, 0.3, 1.0]))
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p > 0.0:
        warpers.append(MinPLogitsWarper(min_p))
    warped = warpers(torch.LongTensor([[0]]), logits[None].double())[0]
    expected = set(torch.isfinite(warped).nonzero().flatten().tolist())
    sampling = Sampling(temperature, top_p, top_k, min_p)
    scores, token_ids = filtered_scores(logits, sampling)
    assert set(token_ids.tolist()) == expected
    torch.testing.assert_close(
        scores.softmax(0), warped[token_ids].softmax(0), atol=1e-12, rtol=1e-9
    )


@given(st.data())
@settings(deadline=None)
def test_a_large_vocabulary_is_filtered_as_if_it_were_sorted_whole(data):
    """With many equals, banned tokens, and flat distributions that need more than a first look."""
    seed = data.draw(st.integers(0, 10_000))
    spread = data.draw(st.sampled_from([0.0, 0.2, 3.0]))
    top_k = data.draw(st.sampled_from([0, 1, 300, 2999]))
    top_p = data.draw(st.sampled_from([1.0, 0.99, 0.5]))
    min_p = data.draw(st.sampled_from([0.0, 1e-4, 0.5]))
    logits = torch.randn(3000, generator=torch.Generator().manual_seed(seed)) * spread
    logits = (logits * 4).round() / 4
    logits[::7] = -torch.inf
    scores, order = logits.double().sort(descending=True, stable=True)
    probs = scores[: top_k or None].softmax(dim=0)
    count = int(((probs.cumsum(dim=0) - probs) < top_p).sum()) if top_p < 1.0 else len(probs)
    count = int((probs[:count] >= min_p * probs[0]).sum())
    found, token_ids = filtered_scores(logits, Sampling(1.0, top_p, top_k, min_p))
    if top_k or top_p < 1.0 or min_p:
        assert token_ids.tolist() == order[:count].tolist()
        assert found.tolist() == scores[:count].tolist()


def test_top_p_keeps_the_most_likely_tokens():
    """B16: on a nearly flat distribution the head is kept, not the tail."""
    logits = [0.0] * 10
    logits[3] = 0.01
    survivors = kept(logits, top_p=0.05)
    assert survivors == {3}
    assert 3 in kept(logits, top_p=0.8)
    assert len(kept(logits, top_p=0.8)) == 8


def test_ties_go_to_the_lowest_id_whatever_the_order():
    assert kept([1.0, 1.0, 1.0], top_k=1) == {0}
    assert greedy_tokens(torch.tensor([[1.0, 3.0, 3.0]])).tolist() == [1]


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"min_p": 1.0}, {"top_p": 1e-9}])
def test_one_survivor_at_least(options):
    assert kept([0.0, 5.0, -5.0], **options) >= {1}


def test_a_tiny_temperature_does_not_overflow():
    sampling = Sampling(temperature=1e-4, seed=5)
    assert sampled_token(torch.tensor([100.0, 101.0, -100.0]), sampling, 3) == 1


def test_a_token_depends_on_seed_and_position_only():
    logits = torch.randn(50, generator=torch.Generator().manual_seed(1))
    one = [sampled_token(logits, Sampling(1.0, seed=9), position) for position in range(60)]
    again = [sampled_token(logits, Sampling(1.0, seed=9), position) for position in range(60)]
    other = [sampled_token(logits, Sampling(1.0, seed=10), position) for position in range(60)]
    assert one == again
    assert one != other
    assert len(set(one)) > 5


def test_log_prob_is_of_the_raw_logits():
    logits = torch.tensor([1.0, 2.0, 3.0])
    assert log_prob(logits, 1) == pytest.approx(float(logits.log_softmax(0)[1]))


def test_the_likeliest_tokens_come_first_and_equals_by_their_id():
    logits = torch.tensor([0.5, 2.0, -1.0, 2.0, 1.0])
    top = top_log_probs(logits, 3)
    assert top.token_ids == (1, 3, 4)
    assert top.log_probs == pytest.approx(logits.log_softmax(0)[[1, 3, 4]].tolist())
    assert len(top_log_probs(logits, 20).token_ids) == 5
    assert top_log_probs(logits, 0).token_ids == ()


def test_a_token_is_likely_enough_by_its_share_of_the_most_likely_ones_probability():
    logits = torch.tensor([0.0, math.log(0.5), math.log(0.25), math.log(0.5), -torch.inf])
    assert likely_token(logits, [2, 3, 1], 0.4) == 1
    assert likely_token(logits, [2, 3], 0.4) == 3
    assert likely_token(logits, [2], 0.4) is None
    assert likely_token(logits, [2], 0.2) == 2
    assert likely_token(logits, [4], 1e-9) is None
