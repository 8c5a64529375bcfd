"""Whole conversations in which workers, messages and readers go missing: the same text."""

import random

import pytest

from draft_service.engine import MAX_RESYNCS, MAX_UNREAD_ROUNDS
from outrider.protocol import messages as m
from outrider.protocol.decoding import Sampling
from outrider.protocol.errors import WorkerUnavailable
from tests.fakes.conversation import Conversation, plain_tokens
from tests.fakes.table_target import markov_logits

SAMPLED = Sampling(temperature=1.0, seed=11)


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
