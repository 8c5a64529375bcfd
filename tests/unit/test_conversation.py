"""Whole conversations over a table target: output equal to plain decoding, whatever is drafted."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.company import ALONE, Company
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.none import NoDrafter
from outrider.protocol import messages as m
from outrider.protocol.decoding import FinishReason, Sampling, Speculation
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import EOS, Conversation, identity, plain_tokens
from tests.fakes.random_drafter import RandomDrafter
from tests.fakes.table_target import hashed_logits, markov_logits

SAMPLED = Sampling(temperature=1.0, seed=11)


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["ngram", "none"])
@pytest.mark.parametrize("logits", [markov_logits, hashed_logits])
def test_equals_plain_decoding(logits, method, sampling):
    logits_of = logits(8, seed=1)
    talk = Conversation(logits_of)
    prompts = {f"s{i}": [1 + i % 6, 2, 3, 1, 2] * (i + 1) for i in range(6)}
    talk.greet()
    ids = {
        name: talk.open(name, prompt, method=method, sampling=sampling, ignore_eos=True)
        for name, prompt in prompts.items()
    }
    talk.run()
    for name, prompt in prompts.items():
        expected = plain_tokens(logits_of, prompt, sampling=sampling, stops=())
        assert talk.tokens(ids[name]) == expected
    assert talk.verify.blocks.in_use == 0


@given(seed=st.integers(0, 10_000), vocab=st.integers(2, 8))
@settings(max_examples=40, deadline=None)
def test_any_tree_gives_the_same_text(seed, vocab):
    logits_of = markov_logits(vocab, seed)
    rng = random.Random(seed)
    sampling = Sampling(temperature=rng.choice([0.0, 0.5, 1.5]), seed=seed)
    talk = Conversation(
        logits_of,
        ack=identity(vocab_size=max(vocab, EOS + 1)),
        block_size=rng.choice([1, 3, 16]),
        token_budget=rng.choice([1, 5, 64]),
        drafters={"any": RandomDrafter(seed, vocab)},
    )
    talk.greet()
    prompts = [[rng.randrange(vocab) for _ in range(rng.randint(1, 9))] for _ in range(3)]
    limits = [rng.randint(1, 25) for _ in prompts]
    ids = [
        talk.open(f"s{i}", prompt, method="any", max_new_tokens=limit, sampling=sampling)
        for i, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    talk.run()
    for one, prompt, limit in zip(ids, prompts, limits, strict=True):
        assert talk.tokens(one) == plain_tokens(logits_of, prompt, limit, sampling)
    assert talk.verify.blocks.in_use == 0


def test_ngram_commits_more_than_one_token_a_round_on_repeating_text():
    """The figure that would silently become 1 if acceptance, compaction or learning broke."""
    talk = Conversation(markov_logits(8, seed=3))
    talk.greet()
    one = talk.open("s", [1, 2, 3], max_new_tokens=200, ignore_eos=True)
    talk.run()
    assert len(talk.tokens(one)) == 200
    assert talk.rounds[one][-1].totals.tokens_per_round > 3


def test_indices_never_skip_and_never_repeat():
    talk = Conversation(markov_logits(8, seed=3))
    talk.greet()
    one = talk.open("s", [1, 2, 3], max_new_tokens=50, ignore_eos=True)
    talk.run()
    place = 0
    for done in talk.rounds[one]:
        assert done.index == place
        place += len(done.token_ids)
    assert place == 50


# ---- lengths and stops (B1, B2, B6, B7, B8, B11, B12)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8, 13])
@pytest.mark.parametrize("method", ["ngram", "none"])
def test_exactly_max_new_tokens(limit, method):
    logits_of = markov_logits(8, seed=3)
    talk = Conversation(logits_of)
    talk.greet()
    prompt = plain_tokens(logits_of, [1, 2], 100, stops=())  # a prompt that n-grams know well
    one = talk.open("s", prompt, method=method, max_new_tokens=limit, ignore_eos=True)
    talk.run()
    assert talk.tokens(one) == plain_tokens(logits_of, prompt, limit, stops=())
    assert talk.rounds[one][-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("context_limit", [102, 103, 108, 111])
@pytest.mark.parametrize("method", ["ngram", "none", "any"])
def test_ends_exactly_at_the_context_limit(context_limit, method):
    logits_of = markov_logits(8, seed=3)
    drafters = {"any": RandomDrafter(0)} if method == "any" else None
    talk = Conversation(logits_of, identity(context_limit=context_limit), drafters=drafters)
    talk.greet()
    prompt = plain_tokens(logits_of, [1, 2], 100, stops=())
    one = talk.open("s", prompt, method=method, max_new_tokens=50, ignore_eos=True)
    talk.run()
    expected = plain_tokens(logits_of, prompt, 50, stops=(), context_limit=context_limit)
    assert talk.tokens(one) == expected
    assert len(prompt) + len(expected) == context_limit
    assert talk.rounds[one][-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("place", range(2, 9))
def test_a_stop_token_ends_the_round_in_mid_block(place):
    logits_of = markov_logits(8, seed=3)
    prompt = plain_tokens(logits_of, [1, 2], 100, stops=())
    ahead = plain_tokens(logits_of, prompt, 20, stops=())
    stop = ahead[place]
    expected = ahead[: ahead.index(stop) + 1]
    talk = Conversation(logits_of)
    talk.greet()
    one = talk.open("s", prompt, stop_token_ids=(stop,), ignore_eos=True, log_probs=True)
    talk.run()
    assert talk.tokens(one) == expected
    last = talk.rounds[one][-1]
    assert last.finish_reason is FinishReason.STOP
    assert len(last.log_probs) == len(last.token_ids)
    assert sum(len(done.token_ids) for done in talk.rounds[one]) == last.totals.committed


def test_a_stop_token_beats_the_length_at_the_same_place():
    logits_of = markov_logits(8, seed=3)
    prompt = plain_tokens(logits_of, [1, 2], 100, stops=())
    ahead = plain_tokens(logits_of, prompt, 20, stops=())
    limit = ahead.index(ahead[4]) + 1
    talk = Conversation(logits_of)
    talk.greet()
    one = talk.open("s", prompt, stop_token_ids=(ahead[4],), max_new_tokens=limit, ignore_eos=True)
    talk.run()
    assert talk.rounds[one][-1].finish_reason is FinishReason.STOP


# ---- losses


def test_a_request_may_ask_for_smaller_trees():
    talk = Conversation(markov_logits(8, seed=3))
    talk.greet()
    wish = Speculation(max_nodes=3, depth=1, parallel_degree=2)
    one = talk.open("s", [1, 2, 3], speculation=wish, ignore_eos=True, max_new_tokens=60)
    talk.run()
    assert max(done.drafted_count for done in talk.rounds[one]) <= 2
    assert max(len(done.token_ids) for done in talk.rounds[one]) <= 2
    assert any(done.reach.accepted for done in talk.rounds[one])


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
def test_the_likeliest_tokens_stand_beside_each_token_whatever_is_drafted(sampling):
    logits_of = markov_logits(8, seed=4)
    listed = {}
    for method in ("none", "ngram"):
        talk = Conversation(logits_of)
        talk.greet()
        one = talk.open(
            "s", [1, 2, 3] * 4, method=method, sampling=sampling, ignore_eos=True, log_probs=True,
            top_log_probs=3,
        )  # fmt: skip
        talk.run()
        rounds = talk.rounds[one]
        listed[method] = [top for done in rounds for top in done.top_log_probs]
        text = [1, 2, 3] * 4
        for token, top in zip(talk.tokens(one), listed[method], strict=True):
            scores = logits_of(tuple(text))
            assert list(top.token_ids) == sorted(range(8), key=lambda i: -scores[i])[:3]
            assert list(top.log_probs) == sorted(top.log_probs, reverse=True)
            text.append(token)
        for done in rounds:
            for token, log_prob, top in zip(
                done.token_ids, done.log_probs, done.top_log_probs, strict=True
            ):
                if token in top.token_ids:
                    place = top.token_ids.index(token)
                    assert top.log_probs[place] == pytest.approx(log_prob, abs=1e-5)
    assert listed["none"] == listed["ngram"]


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
def test_who_asks_for_less_than_lossless_gets_likely_tokens_and_more_of_them(sampling):
    logits_of = markov_logits(8, seed=4, sharpness=1.0)
    prompt = [1, 2, 3, 4, 5, 6] * 4
    drafters = {"any": RandomDrafter(5, 8)}
    rounds = {}
    for threshold in (1.0, 0.3):
        talk = Conversation(logits_of, drafters=drafters)
        talk.greet()
        wish = Speculation(validation_threshold=threshold)
        one = talk.open(
            "s", prompt, method="any", sampling=sampling, ignore_eos=True, max_new_tokens=80,
            speculation=wish,
        )  # fmt: skip
        talk.run()
        rounds[threshold] = talk.rounds[one]
    assert len(rounds[0.3]) < len(rounds[1.0])
    lossless = [token for done in rounds[1.0] for token in done.token_ids]
    assert lossless == plain_tokens(logits_of, prompt, 80, sampling, stops=())
    text = list(prompt)
    for done in rounds[0.3]:
        for place, token in enumerate(done.token_ids):
            scores = np.array(logits_of(tuple(text)))
            own = plain_tokens(logits_of, text, 1, sampling, stops=())[0]
            if token != own:
                assert place < done.reach.accepted
                assert np.exp(scores[token] - scores.max()) >= 0.3
            text.append(token)


def test_what_was_offered_and_accepted_is_counted_by_depth():
    talk = Conversation(markov_logits(8, seed=3))
    talk.greet()
    one = talk.open("s", [1, 2, 3], ignore_eos=True, max_new_tokens=60)
    talk.run()
    reaches = [done.reach for done in talk.rounds[one]]
    assert all(reach.accepted <= reach.offered <= reach.accepted + 1 for reach in reaches)
    assert any(reach.offered > reach.accepted for reach in reaches)
    totals = talk.rounds[one][-1].totals
    for counts, depths in (
        (totals.offered_by_depth, [reach.offered for reach in reaches]),
        (totals.accepted_by_depth, [reach.accepted for reach in reaches]),
    ):
        assert counts == tuple(sum(d >= n for d in depths) for n in range(1, max(depths) + 1))
    assert sum(totals.accepted_by_depth) == totals.accepted > 0


def test_full_trees_have_all_nodes_whatever_rows_cost():
    sizes = {}
    for are_full in (False, True):
        usual = identity()
        dear = m.CostTable((1, 2), (1_000, 100_000))
        ack = m.HelloAck(usual.boot_id, usual.target, usual.lease_ms, dear)
        talk = Conversation(markov_logits(8, seed=3), ack, full_trees=are_full)
        talk.greet()
        one = talk.open("s", [1, 2, 3] * 6, ignore_eos=True, max_new_tokens=30)
        talk.run()
        sizes[are_full] = [done.drafted_count for done in talk.rounds[one]]
        two = talk.open("t", [1, 2, 3] * 6, ignore_eos=True, max_new_tokens=30, is_full=True)
        talk.run()
        assert sum(done.drafted_count for done in talk.rounds[two]) > 0, "one that asks for them"
    assert sum(sizes[False]) == 0
    assert sum(sizes[True]) > 0


class CompanySpy(NoDrafter):
    """Keeps what it is told of others."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[set[Company]] = []

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        self.seen.append({budget.company for budget in budgets})
        return super().draft(session_ids, budgets)


def test_drafters_are_told_who_shares_the_passes():
    spy = CompanySpy()
    talk = Conversation(markov_logits(8, 1), drafters={"spy": spy}, token_budget=8)
    talk.greet()
    for name in "abc":
        talk.open(name, [1, 2, 3], method="spy", max_new_tokens=30, ignore_eos=True)
    for _ in range(10):
        talk.turn()
    assert spy.seen[0] == {ALONE}, "nothing is known yet"
    assert spy.seen[-1] == {Company(rows=2, tokens=2.0)}
    talk.open("late", [1] * 12, method="spy", max_new_tokens=3, ignore_eos=True)
    for _ in range(3):
        talk.turn()
    assert Company(rows=2, tokens=2.0, has_prefill=True) in spy.seen[-1]
    talk.run()
    assert spy.seen[-1] == {Company(rows=2, tokens=2.0)}
