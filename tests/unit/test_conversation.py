"""Whole conversations over a table target: output equal to plain decoding, whatever happens."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.engine import MAX_RESYNCS, MAX_UNREAD_ROUNDS
from outrider.protocol import messages as m
from outrider.protocol.decoding import FinishReason, Sampling, Speculation
from outrider.protocol.errors import InternalFailure, InvalidField, NoCapacity, WorkerUnavailable
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


def test_a_lost_or_repeated_message_changes_nothing():
    logits_of = markov_logits(8, seed=5)
    prompt = [1, 2, 3, 1, 2]
    expected = plain_tokens(logits_of, prompt, 60, SAMPLED, stops=())
    for seed in range(5):
        rng = random.Random(seed)
        talk = Conversation(logits_of)
        talk.greet()
        one = talk.open("s", prompt, max_new_tokens=60, sampling=SAMPLED, ignore_eos=True)

        def copies(message: m.Message, rng: random.Random = rng) -> int:
            return rng.choice([0, 1, 1, 2, 3]) if not isinstance(message, m.OpenSession) else 1

        talk.to_verify = talk.to_draft = copies
        for _ in range(5_000):
            talk.now += 0.5
            talk.turn()
            if talk.tokens(one) == expected and not talk.draft.session_count:
                break
        assert talk.tokens(one) == expected, seed
        assert not talk.errors


@pytest.mark.parametrize("when", [4, 5, 6, 9])
def test_a_restarted_verify_worker_changes_nothing(when):
    logits_of = markov_logits(8, seed=5)
    expected = plain_tokens(logits_of, [1, 2, 3], 60, SAMPLED, stops=())
    talk = Conversation(logits_of)
    talk.greet()
    one = talk.open("s", [1, 2, 3], max_new_tokens=60, sampling=SAMPLED, ignore_eos=True)
    for _ in range(when):
        talk.turn()
    talk.restart_verify(b"w" * 16)
    talk.run()
    assert talk.tokens(one) == expected
    assert talk.verify.blocks.in_use == 0


def test_a_stream_that_is_on_its_way_to_a_draining_verify_worker_goes_elsewhere():
    logits_of = markov_logits(8, seed=5)
    expected = plain_tokens(logits_of, [1, 2, 3], 60, SAMPLED, stops=())
    talk = Conversation(logits_of)
    talk.greet()
    drains = list(range(MAX_RESYNCS + 2))

    def drain_on_the_way(message: m.Message) -> int:
        if isinstance(message, m.OpenSession) and drains:
            drains.pop()
            talk._send(talk.verify.drain("upgrade"))
        return 1

    talk.to_verify = drain_on_the_way
    one = talk.open("s", [1, 2, 3], max_new_tokens=60, sampling=SAMPLED, ignore_eos=True)
    boot = 0
    while drains:
        left = len(drains)
        for _ in range(60):
            talk.turn()
        assert len(drains) < left
        assert not len(talk.verify.sessions)
        boot += 1
        talk.restart_verify(bytes([boot]) * 16)
    talk.run()
    assert talk.tokens(one) == expected
    assert not talk.errors


def test_without_a_verify_worker_a_stream_fails_at_once():
    talk = Conversation(markov_logits(8, seed=5))
    one = talk.open("s", [1, 2, 3])
    talk.turn()
    assert isinstance(talk.errors[one], WorkerUnavailable)


def test_a_lost_verify_worker_fails_the_stream_after_the_timeout():
    talk = Conversation(markov_logits(8, seed=5))
    talk.greet()
    one = talk.open("s", [1, 2, 3])
    talk.turn()
    talk.to_verify = talk.to_draft = lambda message: 0
    talk.turn()
    talk.now += 11.0
    talk.turn()
    assert not talk.errors
    assert (talk.draft.lost_verify_workers, talk.draft.moved_sessions) == (1, 1)
    talk.now += 31.0
    talk.turn()
    assert isinstance(talk.errors[one], WorkerUnavailable)


def test_a_verify_worker_that_took_its_leave_is_not_counted_as_lost():
    talk = Conversation(markov_logits(8, seed=5))
    talk.greet()
    talk.draft.cut(0, talk.now)
    assert talk.draft.lost_verify_workers == 1
    talk.greet()
    talk.draft.handle(0, m.GoAway("shutting down"), talk.now)
    talk.draft.cut(0, talk.now)
    assert talk.draft.lost_verify_workers == 1


def test_a_silent_draft_worker_loses_its_sessions():
    talk = Conversation(markov_logits(8, seed=5))
    talk.greet()
    talk.open("s", [1, 2, 3], ignore_eos=True)
    talk.turn()
    assert talk.verify.blocks.in_use > 0
    talk.verify.expire(talk.now + 5.1)
    assert talk.verify.blocks.in_use == 0
    assert talk.verify.counters.expired_leases == 1


def test_cancelling_frees_the_blocks_within_a_turn():
    talk = Conversation(markov_logits(8, seed=5))
    talk.greet()
    one = talk.open("s", [1, 2, 3], ignore_eos=True, max_new_tokens=400)
    for _ in range(5):
        talk.turn()
    assert talk.verify.blocks.in_use > 0
    talk.draft.cancel(one)
    talk.turn()
    assert talk.verify.blocks.in_use == 0
    assert not len(talk.verify.sessions)


def test_a_stream_that_nobody_reads_rests_and_goes_on_exactly_when_it_is_read():
    logits_of = markov_logits(8, seed=5)
    talk = Conversation(logits_of)
    talk.greet()
    slow, other = (
        talk.open(name, [1, 2, 3], method="none", ignore_eos=True, max_new_tokens=60)
        for name in ("slow", "other")
    )
    talk.unread.add(slow)
    for _ in range(200):
        talk.turn()
    expected = plain_tokens(logits_of, [1, 2, 3], 60, stops=())
    assert talk.tokens(other) == expected
    assert talk.tokens(slow) == expected[:MAX_UNREAD_ROUNDS]
    talk.unread.clear()
    talk.draft.read(slow, MAX_UNREAD_ROUNDS)
    talk.run()
    assert talk.tokens(slow) == expected


# ---- memory


@pytest.mark.parametrize("block_size", [1, 4])
def test_a_small_pool_preempts_and_changes_nothing(block_size):
    logits_of = markov_logits(8, seed=2)
    ack = identity(max_nodes=8)
    talk = Conversation(logits_of, ack, block_count=72 // block_size, block_size=block_size)
    talk.greet()
    prompts = [[1 + i % 7, 2, 3] * 3 for i in range(6)]
    ids = [
        talk.open(f"s{i}", prompt, max_new_tokens=40, sampling=SAMPLED, ignore_eos=True)
        for i, prompt in enumerate(prompts)
    ]
    talk.run()
    for one, prompt in zip(ids, prompts, strict=True):
        assert talk.tokens(one) == plain_tokens(logits_of, prompt, 40, SAMPLED, stops=())
    assert talk.verify.counters.preemptions > 0
    assert talk.verify.blocks.in_use == 0


def prefilled(talk: Conversation, name: str, prompt: list[int], **options) -> tuple[bytes, int]:
    """Runs one stream; how many rows its steps had besides those of its rounds."""
    before = sum(talk.target.steps)  # type: ignore[attr-defined]
    one = talk.open(name, prompt, method="none", ignore_eos=True, **options)
    talk.run()
    rows = sum(talk.target.steps) - before  # type: ignore[attr-defined]
    return one, rows - len(talk.rounds[one])


def test_the_same_beginning_is_not_run_twice():
    logits_of = markov_logits(8, seed=5)
    talk = Conversation(logits_of, block_size=4)
    talk.greet()
    system = [1 + i * i % 7 for i in range(40)]
    first, rows = prefilled(talk, "a", [*system, 5, 6, 7], max_new_tokens=6)
    assert rows == 42  # all but the root
    second, rows = prefilled(talk, "b", [*system, 3, 3], max_new_tokens=6)
    assert rows == 1
    third, rows = prefilled(talk, "c", [*system[:20], 7, *system[21:]], max_new_tokens=6)
    assert rows == 39 - 20
    answer = talk.tokens(first)
    following, rows = prefilled(talk, "d", [*system, 5, 6, 7, *answer, 2], max_new_tokens=6)
    assert rows <= 4 + 2  # the last whole block that was committed a round before the end
    for one, prompt in (
        (first, [*system, 5, 6, 7]),
        (second, [*system, 3, 3]),
        (third, [*system[:20], 7, *system[21:]]),
        (following, [*system, 5, 6, 7, *answer, 2]),
    ):
        assert talk.tokens(one) == plain_tokens(logits_of, prompt, 6, stops=())
    counters = talk.verify.counters
    assert counters.prefix_rows == 42 + 41 + 39 + 49
    assert counters.prefix_hit_rows == counters.prefix_rows - 42 - 1 - 19 - rows
    assert talk.verify.blocks.in_use == 0
    talk.verify.audit()


def test_streams_that_run_together_share_what_was_there_before_them():
    logits_of = markov_logits(8, seed=5)
    talk = Conversation(logits_of, block_size=4)
    talk.greet()
    system = [1 + i * i % 7 for i in range(40)]
    prefilled(talk, "a", system, max_new_tokens=2)
    ids = [
        talk.open(f"s{i}", [*system, i], sampling=SAMPLED, ignore_eos=True, max_new_tokens=30)
        for i in range(1, 6)
    ]
    talk.turn()
    talk.turn()
    tables = [session.table.blocks for session in talk.verify.sessions]
    assert len(tables) == 5
    assert len({tuple(blocks[:9]) for blocks in tables}) == 1
    talk.verify.audit()
    talk.run()
    for i, one in enumerate(ids, start=1):
        expected = plain_tokens(logits_of, [*system, i], 30, SAMPLED, stops=())
        assert talk.tokens(one) == expected


def test_a_preempted_session_begins_again_with_what_is_left_of_its_rows():
    logits_of = markov_logits(8, seed=2)
    talk = Conversation(logits_of, identity(max_nodes=4), block_count=26, block_size=2)
    talk.greet()
    prompts = [[1 + i, 2, 3, 4, 5, 6] * 3 for i in range(3)]
    ids = [
        talk.open(f"s{i}", prompt, max_new_tokens=20, sampling=SAMPLED, ignore_eos=True)
        for i, prompt in enumerate(prompts)
    ]
    talk.run()
    for one, prompt in zip(ids, prompts, strict=True):
        assert talk.tokens(one) == plain_tokens(logits_of, prompt, 20, SAMPLED, stops=())
    assert talk.verify.counters.preemptions > 0
    assert talk.verify.counters.prefix_hit_rows > 0


def test_rows_of_a_session_that_broke_are_not_shared():
    """A row that is not a number would break whoever begins with it, again and again."""
    logits_of = markov_logits(8, seed=5)
    broken = True

    def sometimes(prefix: tuple[int, ...]) -> list[float]:
        return [float("nan")] * 8 if broken else list(logits_of(prefix))

    talk = Conversation(sometimes, block_size=4, token_budget=8)
    talk.greet()
    prompt = [1, 2, 3, 4] * 6
    one = talk.open("a", prompt, max_new_tokens=4)
    talk.run()
    assert one in talk.errors
    assert talk.verify.blocks.idle == 0
    broken = False
    second, rows = prefilled(talk, "b", prompt, max_new_tokens=4)
    assert rows == 23
    assert talk.tokens(second) == plain_tokens(logits_of, prompt, 4, stops=())


def test_a_session_that_can_never_fit_is_refused_in_words():
    talk = Conversation(markov_logits(8, seed=2), block_count=10)
    talk.greet()
    one = talk.open("s", [1, 2, 3], max_new_tokens=4000)
    talk.run()
    assert isinstance(talk.errors[one], NoCapacity)
    assert "kv_cache_mib" in talk.errors[one].message


# ---- bad rows and bad fields stay alone


def test_nan_logits_end_their_own_session_only():
    good = markov_logits(8, seed=2)

    def logits_of(prefix):
        return [float("nan")] * 8 if prefix[0] == 6 and len(prefix) > 9 else good(prefix)

    talk = Conversation(logits_of)
    talk.greet()
    bad = talk.open("bad", [6, 2, 3], ignore_eos=True)
    fine = talk.open("fine", [1, 2, 3], ignore_eos=True)
    talk.run()
    assert isinstance(talk.errors[bad], InternalFailure)
    assert "NON_FINITE_LOGITS" in talk.errors[bad].message
    assert talk.tokens(fine) == plain_tokens(good, [1, 2, 3], stops=())
    assert talk.verify.blocks.in_use == 0


def test_an_id_outside_the_vocabulary_names_its_field():
    talk = Conversation(markov_logits(8, seed=2))
    talk.greet()
    one = talk.open("s", [1, 99, 3])
    talk.run()
    error = talk.errors[one]
    assert isinstance(error, InvalidField)
    assert error.field == "token_ids[1]"


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
