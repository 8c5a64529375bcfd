"""Many streams of all kinds that come and go, in a pool a quarter of what they need: each that runs
to its end has the text that it has alone, and nothing is left behind."""

import random

import pytest

from tests.fakes.option_rows import ROWS, conversation, open_row

STREAMS = 32
NEW_TOKENS = 24
ROWS_EACH = 15 + NEW_TOKENS


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    texts = []
    for number in range(STREAMS):
        talk = conversation("none")
        one = open_row(talk, number, "none", NEW_TOKENS)
        talk.run()
        texts.append(talk.tokens(one))
    return texts


@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("method", ["ngram", "changing"])
def test_streams_that_come_and_go_have_the_text_that_they_have_alone(alone, method, block_size):
    assert len(ROWS) < STREAMS
    rng = random.Random(block_size)
    quarter = STREAMS * ROWS_EACH // 4
    talk = conversation(
        method, block_count=quarter // block_size, block_size=block_size, token_budget=48
    )
    waiting = list(range(STREAMS))
    ids: dict[int, bytes] = {}
    cancelled: set[int] = set()
    for _ in range(2_000):
        for _ in range(rng.randint(0, 4)):
            if waiting:
                number = waiting.pop()
                ids[number] = open_row(talk, number, method, NEW_TOKENS)
        if rng.random() < 0.1 and len(cancelled) < 8:
            number = rng.choice(list(ids) or [0])
            if number in ids and len(talk.tokens(ids[number])) < len(alone[number]):
                talk.draft.cancel(ids[number])
                cancelled.add(number)
        talk.turn()
        talk.verify.audit()
        if not waiting and not talk.draft.session_count:
            break
    assert not talk.errors
    assert len(cancelled) > 2
    assert talk.verify.counters.preemptions > 0
    for number, one in ids.items():
        text = talk.tokens(one)
        assert text == alone[number][: len(text)], ROWS[number % len(ROWS)]
        assert number in cancelled or text == alone[number]
    assert not len(talk.verify.sessions)
    assert talk.verify.blocks.in_use == 0
