"""Drafting with a draft model over whole conversations: the text is that of the target alone.

The table model checks at each pass that what it reads are the session's own tokens.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.drafters.drafter import Drafter
from draft_service.drafters.model import ModelDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.drafters.none import NoDrafter
from draft_service.row_extents import RowExtents
from draft_service.tree_shape import DynamicShape
from outrider.protocol.decoding import Sampling
from tests.fakes.conversation import Conversation, identity, plain_tokens
from tests.fakes.table_model import TableModel
from tests.fakes.table_network import GuessesOf
from tests.fakes.table_target import LogitsOf, hashed_logits
from tests.unit.test_head_conversation import SAMPLED, VOCAB, knowing


class ModelTalk(Conversation):
    """A conversation with the methods `model` and `none`."""

    def __init__(self, logits_of: LogitsOf, guesses_of: GuessesOf | None = None, **options) -> None:
        self.model = TableModel(guesses_of or knowing(logits_of))
        self.extents = RowExtents(self.model.slot_count)
        self.drops: list[DropReason] = []
        drafter = ModelDrafter(
            self.model,
            self.extents,
            NetworkOptions(DynamicShape(), may_rest=False),
            lambda session_id, reason, text: self.drops.append(reason),
            lambda: self.now,
        )
        drafters: dict[str, Drafter] = {"model": drafter, "none": NoDrafter()}
        super().__init__(logits_of, drafters=drafters, **options)
        self.greet()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_ids_equal_those_of_the_target_alone(seed):
    rng = random.Random(seed)
    logits_of = hashed_logits(VOCAB, seed)
    sampling = Sampling(temperature=rng.choice([0.0, 0.5, 1.5]), seed=seed)
    talk = ModelTalk(
        logits_of,
        ack=identity(vocab_size=VOCAB, max_nodes=rng.choice([1, 4, 16])),
        block_size=rng.choice([1, 4]),
        block_count=400,
        token_budget=rng.choice([3, 64]),
    )
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 200))] for _ in range(4)]
    ids = [
        talk.open(f"s{place}", prompt, method=rng.choice(("model", "model", "none")),
                  sampling=sampling)
        for place, prompt in enumerate(prompts)
    ]  # fmt: skip
    talk.run()
    assert not talk.errors
    assert not talk.drops
    for session_id, prompt in zip(ids, prompts, strict=True):
        assert talk.tokens(session_id) == plain_tokens(logits_of, prompt, sampling=sampling)
    assert talk.extents.in_use == 0


def test_a_model_that_equals_the_target_is_always_right():
    """Full trees: each round commits as many tokens as the tree is deep, and the bonus."""
    logits_of = hashed_logits(VOCAB, 3)

    def guesses_of(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
        scores = list(logits_of(prefix))
        order = sorted(range(len(scores)), key=lambda token: -scores[token])
        return list(zip(order, (0.6, 0.2, 0.1, 0.05), strict=False))

    talk = ModelTalk(logits_of, guesses_of, full_trees=True)
    one = talk.open("s", [1, 2, 3], method="model", ignore_eos=True, max_new_tokens=90)
    talk.run()
    assert talk.tokens(one) == plain_tokens(logits_of, [1, 2, 3], 90, stops=())
    assert len(talk.rounds[one]) < 90 / 4
    assert all(done.reach.accepted == done.reach.offered for done in talk.rounds[one])


@pytest.mark.parametrize("seed", range(3))
def test_loss_repetition_and_a_restart_change_nothing(seed):
    rng, logits_of = random.Random(seed), hashed_logits(VOCAB, seed)
    talk = ModelTalk(logits_of)
    talk.to_verify = talk.to_draft = lambda message: rng.choice([0, 1, 1, 1, 1, 1, 2])
    ids = [
        talk.open(name, [1, 2, seed], method="model", sampling=SAMPLED, ignore_eos=True)
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
    assert not talk.drops


def test_a_model_that_fails_ends_no_stream():
    talk = ModelTalk(hashed_logits(VOCAB, 3))
    one = talk.open("s", [1, 2, 3], method="model", ignore_eos=True)
    for _ in range(4):
        talk.turn()
    talk.model.broken = RuntimeError("the device is gone")
    talk.run()
    assert talk.drops == [DropReason.FAILED]
    assert talk.tokens(one) == plain_tokens(hashed_logits(VOCAB, 3), [1, 2, 3], stops=())
