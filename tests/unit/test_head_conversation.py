"""Drafting with a head over whole conversations: the text is that of the target alone.

The table head checks at each pass that what it reads are the session's own true rows.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.drafters.drafter import Drafter
from draft_service.drafters.head import HeadDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.none import NoDrafter
from draft_service.row_extents import RowExtents
from draft_service.tree_shape import DynamicShape, StaticShape
from outrider.protocol import messages as m
from outrider.protocol.decoding import Sampling
from tests.fakes.conversation import Conversation, identity, plain_tokens
from tests.fakes.table_head import LAYOUT, TableHead
from tests.fakes.table_network import GuessesOf
from tests.fakes.table_target import LogitsOf, hashed_logits

VOCAB = 8
SAMPLED = Sampling(temperature=0.7, seed=11)


def knowing(logits_of: LogitsOf) -> GuessesOf:
    """A head that ranks the target's tokens well, and is not always right."""

    def guesses_of(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
        scores = list(logits_of(prefix))
        order = sorted(range(len(scores)), key=lambda token: -scores[token])
        if len(prefix) % 3 == 0:
            order = order[1:] + order[:1]
        return list(zip(order, (0.6, 0.2, 0.1, 0.05), strict=False))

    return guesses_of


class HeadTalk(Conversation):
    """A conversation with the methods `eagle3`, `hybrid`, `static` and `none`."""

    def __init__(
        self,
        logits_of: LogitsOf,
        guesses_of: GuessesOf | None = None,
        may_rest: bool = False,
        **options,
    ) -> None:
        self.head = TableHead(guesses_of or knowing(logits_of))
        self.drops: list[DropReason] = []
        extents = RowExtents(self.head.slot_count)

        def drafter(shape, has_text: bool) -> HeadDrafter:
            return HeadDrafter(
                self.head,
                extents,
                NetworkOptions(shape, has_text, may_rest=may_rest),
                lambda session_id, reason, text: self.drops.append(reason),
                lambda: self.now,
            )

        drafters: dict[str, Drafter] = {
            "eagle3": drafter(DynamicShape(), False),
            "hybrid": drafter(DynamicShape(), True),
            "static": drafter(StaticShape.parsed("0 1 2 0.0 0.1 1.0 0.0.0"), False),
            "none": NoDrafter(),
        }
        super().__init__(logits_of, drafters=drafters, layout=LAYOUT, **options)
        self.extents = extents
        self.greet()

    def tokens_per_round(self, session_id: bytes) -> float:
        return len(self.tokens(session_id)) / len(self.rounds[session_id])


METHODS = ("eagle3", "hybrid", "static")


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_ids_equal_those_of_the_target_alone(seed):
    rng = random.Random(seed)
    logits_of = hashed_logits(VOCAB, seed)
    sampling = Sampling(temperature=rng.choice([0.0, 0.5, 1.5]), seed=seed)
    talk = HeadTalk(
        logits_of,
        may_rest=rng.choice([False, True]),
        ack=identity(vocab_size=VOCAB, max_nodes=rng.choice([1, 4, 16])),
        block_size=rng.choice([1, 4]),
        block_count=200,
        token_budget=rng.choice([3, 64]),
    )
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 40))] for _ in range(3)]
    ids = [
        talk.open(f"s{place}", prompt, method=rng.choice(METHODS), sampling=sampling)
        for place, prompt in enumerate(prompts)
    ]
    talk.run()
    assert not talk.errors
    assert not talk.drops
    for session_id, prompt in zip(ids, prompts, strict=True):
        assert talk.tokens(session_id) == plain_tokens(logits_of, prompt, sampling=sampling)
    assert talk.extents.in_use == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_head_that_knows_the_target_saves_rounds(method):
    talk = HeadTalk(hashed_logits(VOCAB, 3))
    one = talk.open("s", [1, 2, 3], method=method, ignore_eos=True, max_new_tokens=80)
    talk.run()
    assert talk.tokens_per_round(one) > 1.8


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(2))
def test_loss_repetition_and_a_restart_change_nothing(method, seed):
    """Rows that are missing are asked for again; meanwhile there is no tree, and then there is."""
    rng, logits_of = random.Random(seed), hashed_logits(VOCAB, seed)
    talk = HeadTalk(logits_of)
    talk.to_verify = talk.to_draft = lambda message: rng.choice([0, 1, 1, 1, 1, 1, 2])
    ids = [
        talk.open(name, [1, 2, seed], method=method, sampling=SAMPLED, ignore_eos=True)
        for name in ("s", "t")
    ]
    for _ in range(12):
        talk.turn()
    talk.restart_verify(b"w" * 16)
    talk.run(20_000)
    for session_id in ids:
        assert talk.tokens(session_id) == plain_tokens(
            logits_of, [1, 2, seed], sampling=SAMPLED, stops=()
        )
    assert not set(talk.drops) - {DropReason.MISSING_FEATURES}


def test_a_session_placed_anew_sends_no_row_twice():
    talk = HeadTalk(hashed_logits(VOCAB, 3))
    asked: list[tuple[int | None, int]] = []

    def to_verify(message: m.Message) -> int:
        if isinstance(message, m.OpenSession):
            asked.append((message.features_from, len(message.token_ids)))
        return 1

    talk.to_verify = to_verify
    one = talk.open("s", [1, 2, 3], method="hybrid", ignore_eos=True, max_new_tokens=60)
    for _ in range(8):
        talk.turn()
    talk.restart_verify(b"w" * 16)
    talk.run()
    (first, _), (again, length) = asked
    assert first == 0
    assert again == length - 1 > 3, "the root's alone"
    assert talk.tokens(one) == plain_tokens(hashed_logits(VOCAB, 3), [1, 2, 3], 60, stops=())


@pytest.mark.parametrize("method", METHODS)
def test_a_head_that_fails_ends_no_stream(method):
    talk = HeadTalk(hashed_logits(VOCAB, 3))
    one = talk.open("s", [1, 2, 3], method=method, ignore_eos=True)
    for _ in range(6):
        talk.turn()
    talk.head.broken = RuntimeError("the device is gone")
    talk.run()
    assert talk.drops == [DropReason.FAILED]
    assert talk.tokens(one) == plain_tokens(hashed_logits(VOCAB, 3), [1, 2, 3], stops=())
