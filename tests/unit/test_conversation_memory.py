"""Whole conversations that share, fill or break the KV pool: the others' text stays as it is."""

import pytest

from outrider.protocol.decoding import Sampling
from outrider.protocol.errors import InternalFailure, InvalidField, NoCapacity
from tests.fakes.conversation import Conversation, identity, plain_tokens
from tests.fakes.table_target import markov_logits

SAMPLED = Sampling(temperature=1.0, seed=11)


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
