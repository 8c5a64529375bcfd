"""Features over whole conversations: each committed row once, in order, in time, with its values.

The text must not notice any of it.
"""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.drafters.none import NoDrafter
from draft_service.stream_features import MAX_LOSSES
from outrider.protocol import messages as m
from outrider.protocol.decoding import DecodeLimits, Sampling
from outrider.protocol.token_tree import TokenTree
from tests.fakes.conversation import EOS, Conversation, identity, plain_tokens
from tests.fakes.feature_drafter import LAYOUT, FeatureDrafter
from tests.fakes.random_drafter import RandomDrafter
from tests.fakes.table_target import markov_logits

SAMPLED = Sampling(temperature=1.0, seed=11)
LOGITS_OF = markov_logits(8, seed=5)


class Wire:
    """Notes what passes between the workers of a conversation, by placement."""

    def __init__(self, talk: Conversation) -> None:
        self.features_from: dict[tuple[bytes, int], int | None] = {}
        self.answers: defaultdict[tuple[bytes, int], list[m.FeatureRows | m.Verdict]]
        self.answers = defaultdict(list)
        talk.to_verify = self.to_verify
        talk.to_draft = self.to_draft

    def to_verify(self, message: m.Message) -> int:
        if isinstance(message, m.OpenSession):
            self.features_from[message.session_id, message.epoch] = message.features_from
        return 1

    def to_draft(self, message: m.Message) -> int:
        if isinstance(message, m.FeatureRows | m.Verdict):
            self.answers[message.session_id, message.epoch].append(message)
        return 1

    def check_order(self) -> int:
        """Rows follow on one another from the first that was asked for; how many there were."""
        row_count = 0
        for placement, answers in self.answers.items():
            next_row = self.features_from[placement]
            for answer in answers:
                if isinstance(answer, m.FeatureRows):
                    assert answer.first_row == next_row
                    next_row = answer.stop_row
                    row_count += answer.row_count
        return row_count

    def verdicts(self) -> list[m.Verdict]:
        said = [one for answers in self.answers.values() for one in answers]
        return [one for one in said if isinstance(one, m.Verdict)]


def feature_talk(drafter: FeatureDrafter, **options) -> Conversation:
    logits_of = options.pop("logits_of", LOGITS_OF)
    talk = Conversation(logits_of, drafters={"head": drafter}, layout=LAYOUT, **options)
    talk.greet()
    return talk


@given(seed=st.integers(0, 10_000), vocab=st.integers(2, 8), first_row=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_each_committed_row_comes_once_in_order_and_in_time(seed, vocab, first_row):
    rng = random.Random(seed)
    logits_of = markov_logits(vocab, seed)
    sampling = Sampling(temperature=rng.choice([0.0, 0.5, 1.5]), seed=seed)
    drafter = FeatureDrafter(seed, vocab, first_row)
    block_size = rng.choice([1, 3, 16])
    talk = feature_talk(
        drafter,
        logits_of=logits_of,
        ack=identity(vocab_size=max(vocab, EOS + 1), max_nodes=8),
        block_size=block_size,
        block_count=rng.choice([64, 90, 400]) // block_size,
        token_budget=rng.choice([1, 5, 64]),
    )
    wire = Wire(talk)
    prompts = [[rng.randrange(vocab) for _ in range(rng.randint(1, 15))] for _ in range(4)]
    drafter.first_row = min(first_row, *(len(prompt) - 1 for prompt in prompts))
    limits = [rng.randint(1, 25) for _ in prompts]
    ids = [
        talk.open(f"s{i}", prompt, method="head", max_new_tokens=limit, sampling=sampling)
        for i, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    talk.run()
    assert not talk.errors
    assert talk.draft.stale_messages == 0
    for one, prompt, limit in zip(ids, prompts, limits, strict=True):
        text = plain_tokens(logits_of, prompt, limit, sampling)
        assert talk.tokens(one) == text
        drafter.check_values(one)
        last_round = len(talk.rounds[one][-1].token_ids)
        known = max(drafter.first_row, len(prompt) + len(text) - last_round - 1)
        if len(talk.rounds[one]) > 1:
            assert drafter.features_from(one) == known
            assert drafter.lacking[one] == [len(prompt) + len(text)], "of the last round alone"
    assert wire.check_order() == sum(len(taken) for taken in drafter.taken.values())


def test_features_of_a_round_stand_right_before_its_verdict():
    talk = feature_talk(FeatureDrafter(3), token_budget=16)
    wire = Wire(talk)
    one = talk.open("s", [1, 2, 3] * 11, method="head", ignore_eos=True, max_new_tokens=30)
    talk.run()
    answers = wire.answers[one, 0]
    first_verdict = next(i for i, said in enumerate(answers) if isinstance(said, m.Verdict))
    assert first_verdict == 3, "the prompt came in two full chunks, before any verdict"
    committed = 33 - 1
    for before, verdict in zip(answers[first_verdict - 1 :], answers[first_verdict:], strict=False):
        if isinstance(verdict, m.Verdict) and verdict.finish_reason is None:
            assert isinstance(before, m.FeatureRows)
            committed += len(verdict.accepted_indices) + 1
            assert before.stop_row == committed
    assert isinstance(answers[-2], m.Verdict), "the last round needs no features"
    assert any(said.accepted_indices for said in wire.verdicts())


def test_the_verdicts_are_those_of_a_method_without_features():
    said = []
    for drafter, layout in [(FeatureDrafter(3), LAYOUT), (RandomDrafter(3), None)]:
        talk = Conversation(LOGITS_OF, drafters={"any": drafter}, layout=layout)
        talk.greet()
        wire = Wire(talk)
        for name in ("s", "t"):
            talk.open(name, [1, 2, 3], method="any", sampling=SAMPLED, ignore_eos=True)
        talk.run()
        said.append(wire.verdicts())
    assert said[0] == said[1]


@pytest.mark.parametrize("seed", range(6))
def test_a_lost_or_repeated_message_costs_no_row(seed):
    rng = random.Random(seed)
    prompt = [1, 2, 3, 1, 2]
    expected = plain_tokens(LOGITS_OF, prompt, 60, SAMPLED, stops=())
    drafter = FeatureDrafter(seed)
    talk = feature_talk(drafter, token_budget=4)
    one = talk.open(
        "s", prompt, method="head", max_new_tokens=60, sampling=SAMPLED, ignore_eos=True
    )
    lost = 0

    def copies(message: m.Message) -> int:
        nonlocal lost
        count = 1 if isinstance(message, m.OpenSession) else rng.choice([0, 1, 1, 2, 3])
        if isinstance(message, m.FeatureRows) and not count:
            lost += 1
            return 0 if lost <= MAX_LOSSES else 1
        return count

    talk.to_verify = talk.to_draft = copies
    for _ in range(5_000):
        talk.now += 0.5
        talk.turn()
        if not talk.draft.session_count:
            break
    assert talk.tokens(one) == expected
    assert not talk.errors
    assert lost, "features were lost on the way"
    drafter.check_values(one)
    assert drafter.features_from(one) >= len(prompt) + 60 - 17, "but for the last round's"


def test_whoever_loses_features_again_and_again_goes_on_without():
    drafter = FeatureDrafter(1)
    talk = feature_talk(drafter)
    one = talk.open("s", [1, 2, 3], method="head", max_new_tokens=60, ignore_eos=True)
    opened: list[m.OpenSession] = []

    def note(message: m.Message) -> int:
        opened.extend([message] if isinstance(message, m.OpenSession) else [])
        return 1

    talk.to_verify = note
    talk.to_draft = lambda message: 0 if isinstance(message, m.FeatureRows) else 1
    talk.run()
    assert talk.tokens(one) == plain_tokens(LOGITS_OF, [1, 2, 3], 60, stops=())
    assert [message.features_from for message in opened] == [0] * (1 + MAX_LOSSES)
    assert drafter.taken[one] == []


@pytest.mark.parametrize("when", [4, 5, 6, 9, 12])
def test_a_restarted_verify_worker_sends_only_what_is_missing(when):
    expected = plain_tokens(LOGITS_OF, [1, 2, 3], 60, SAMPLED, stops=())
    drafter = FeatureDrafter(2)
    talk = feature_talk(drafter)
    wire = Wire(talk)
    one = talk.open(
        "s", [1, 2, 3], method="head", max_new_tokens=60, sampling=SAMPLED, ignore_eos=True
    )
    for _ in range(when):
        talk.turn()
    known = drafter.features_from(one)
    talk.link.arrived.clear()  # what the dying worker said last is lost
    talk.restart_verify(b"w" * 16)
    talk.run()
    assert talk.tokens(one) == expected
    drafter.check_values(one)
    assert wire.features_from[one, 1] == known
    wire.check_order()


@pytest.mark.parametrize("block_size", [1, 4])
def test_preemption_sends_no_row_twice(block_size):
    drafter = FeatureDrafter(4)
    talk = feature_talk(
        drafter,
        logits_of=markov_logits(8, seed=2),
        ack=identity(max_nodes=8),
        block_count=72 // block_size,
        block_size=block_size,
    )
    wire = Wire(talk)
    ids = [
        talk.open(f"s{i}", [1 + i % 7, 2, 3] * 3, method="head", sampling=SAMPLED, ignore_eos=True)
        for i in range(6)
    ]
    talk.run()
    assert talk.verify.counters.preemptions > 0
    assert talk.draft.stale_messages == 0
    assert wire.check_order() == sum(len(taken) for taken in drafter.taken.values())
    for one in ids:
        drafter.check_values(one)


@pytest.mark.parametrize("together", [True, False])
def test_prompts_that_differ_in_the_last_token_only_have_features_of_their_own(together):
    """B33: what is known of one prompt must not be taken for the other's."""
    drafter = FeatureDrafter(6)
    talk = feature_talk(drafter)
    wire = Wire(talk)
    ids = []
    for name, last in (("s", 4), ("t", 5)):
        ids.append(talk.open(name, [1, 2, 3, last], method="head", max_new_tokens=20))
        if not together:
            talk.run()
    talk.run()
    for one in ids:
        assert wire.features_from[one, 0] == 0
        drafter.check_values(one)
        assert len(drafter.taken[one]) >= 4
    assert drafter.taken[ids[0]][:3] == drafter.taken[ids[1]][:3]
    assert drafter.taken[ids[0]][3] != drafter.taken[ids[1]][3]


def test_methods_with_and_without_features_share_a_step():
    drafter = FeatureDrafter(7)
    drafters = {"head": drafter, "any": RandomDrafter(7)}
    talk = Conversation(LOGITS_OF, drafters=drafters, layout=LAYOUT)
    talk.greet()
    wire = Wire(talk)
    ids = {
        method: talk.open(method, [1, 2, 3], method=method, ignore_eos=True)
        for method in ("any", "head")
    }
    talk.run()
    expected = plain_tokens(LOGITS_OF, [1, 2, 3], stops=())
    assert [talk.tokens(one) for one in ids.values()] == [expected, expected]
    assert wire.features_from == {(ids["any"], 0): None, (ids["head"], 0): 0}
    assert {type(said) for said in wire.answers[ids["any"], 0]} == {m.Verdict}
    drafter.check_values(ids["head"])


@pytest.mark.parametrize("asked_before", [True, False])
def test_rows_that_a_session_has_not_run_itself_bring_their_features_too(asked_before):
    """A hit in the cache must not cost the head its features (B33), whoever ran those rows."""
    system = [1 + i * i % 7 for i in range(40)]
    drafter = FeatureDrafter(3, 8)
    talk = Conversation(
        LOGITS_OF,
        drafters={"head": drafter, "none": NoDrafter()},
        layout=LAYOUT,
        block_size=4,
    )
    talk.greet()
    wire = Wire(talk)
    first = "head" if asked_before else "none"
    talk.open("a", system, method=first, ignore_eos=True, max_new_tokens=8)
    talk.run()
    two = talk.open("b", [*system, 3, 4], method="head", ignore_eos=True, max_new_tokens=8)
    talk.run()
    assert talk.verify.counters.prefix_hit_rows == 40
    wire.check_order()
    # All committed rows but those of the last round.
    sent = [a for a in wire.answers[two, 0] if isinstance(a, m.FeatureRows)]
    last = talk.rounds[two][-1]
    assert sum(rows.row_count for rows in sent) == 42 + 8 - len(last.token_ids) - 1
    assert talk.tokens(two) == plain_tokens(LOGITS_OF, [*system, 3, 4], 8, stops=())


@pytest.mark.parametrize(
    ("layers", "salt", "hits"), [((), b"", 36), ((2,), b"", 0), ((), b"tenant", 0)]
)
def test_rows_are_shared_between_peers_but_not_across_salts_or_heads(layers, salt, hits):
    """Rows without the features that somebody wants are of no use to them."""
    system = tuple(1 + i * i % 7 for i in range(40))
    talk = Conversation(LOGITS_OF, block_size=4)
    talk.greet()
    talk.open("a", list(system), ignore_eos=True, max_new_tokens=4)
    talk.run()
    name = b"o" * 16
    limits = DecodeLimits(4)
    opened = m.OpenSession(name, 0, system, 40, Sampling(), limits, cache_salt=salt)
    tree = m.ProposeTree(name, 0, 0, TokenTree.root_only(system[-1]))
    for message in (m.Hello(b"p" * 16, feature_layers=layers), opened, tree):
        talk.verify.handle(b"other", message, talk.now)
    assert talk.verify.plan() is not None
    assert talk.verify.counters.prefix_hit_rows == hits
