"""Speculative and plain decoding give the same ids on real (tiny, random) networks.

Both workers, their codec and their rules run over an in-memory channel; the target is torch.
"""

import random
import re
from collections import Counter

import pytest
import torch

from outrider.modeling.ruled_logits import ruled_logits
from outrider.modeling.token_choice import sampled_token
from outrider.protocol.decoding import Sampling
from outrider.protocol.grammar import Grammar, GrammarKind
from outrider.protocol.logit_rules import LogitRules
from tests.fakes import letters
from tests.fakes.conversation import Conversation, identity
from tests.fakes.random_drafter import RandomDrafter
from tests.unit.modeling.tiny_models import VOCAB, plain_model, target_model
from verify_service.executor import TorchExecutor

ACK = identity(vocab_size=VOCAB, max_nodes=24)
NEW_TOKENS = 24


def decode(
    family: str, prompts, method: str, sampling: Sampling, limits=None, **shape
) -> list[list[int]]:
    """Ids of all prompts, decoded together."""
    drafters = {"any": RandomDrafter(5, VOCAB)} if method == "any" else None
    talk = Conversation(
        lambda prefix: [],
        ack=ACK,
        drafters=drafters,
        make_target=lambda rows: TorchExecutor(target_model(family, slots=rows), rows),
        grammars=letters.ReadAtOnce(letters.letter_grammars()),
        **shape,
    )
    talk.greet()
    ids = [
        talk.open(
            f"s{i}", prompt, method=method, sampling=sampling, max_new_tokens=NEW_TOKENS,
            **({"ignore_eos": True} | (limits or {})),
        )
        for i, prompt in enumerate(prompts)
    ]  # fmt: skip
    talk.run()
    assert not talk.errors
    assert talk.verify.blocks.in_use == 0
    return [talk.tokens(one) for one in ids]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    rng = random.Random(1)
    motif = [rng.randrange(1, VOCAB) for _ in range(4)]
    return [
        [rng.randrange(1, VOCAB) for _ in range(rng.randint(1, 12))] + motif * rng.randint(1, 3)
        for _ in range(4)
    ]


@pytest.mark.parametrize("family", ["llama", "mistral-window", "gemma2-softcap"])
@pytest.mark.parametrize("method", ["none", "ngram", "any"])
def test_greedy_equals_generate(family, method, prompts):
    plain = plain_model(family)
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
            eos_token_id=None,
        )  # fmt: skip
        expected.append(out[0, len(prompt) :].tolist())
    assert decode(family, prompts, method, Sampling()) == expected


@pytest.mark.parametrize("method", ["none", "ngram", "any"])
def test_a_repetition_penalty_is_that_of_generate(method, prompts):
    plain = plain_model("llama")
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = plain.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
            eos_token_id=None, repetition_penalty=1.25,
        )  # fmt: skip
        expected.append(out[0, len(prompt) :].tolist())
    sampling = Sampling(rules=LogitRules(repetition_penalty=1.25))
    assert decode("llama", prompts, method, sampling) == expected
    assert expected != decode("llama", prompts, method, Sampling())


RULES = {
    "repetition": LogitRules(repetition_penalty=1.4),
    "presence": LogitRules(presence_penalty=1.5),
    "frequency": LogitRules(frequency_penalty=0.8),
    "bias": LogitRules(logit_bias=((3, 4.0), (11, -100.0))),
    "allowed": LogitRules(allowed_token_ids=tuple(range(0, VOCAB, 2)), banned_token_ids=(4,)),
    "all": LogitRules(1.2, 0.4, 0.3, ((5, 1.0),), (), (1, 2)),
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_rules_act_at_every_node_with_its_own_ancestors(rules, temperature, prompts):
    """The yardstick draws one token after the other from a forward pass over all before it."""
    sampling = Sampling(temperature, seed=9, rules=rules)
    plain = plain_model("llama")
    expected = []
    for prompt in prompts:
        ids = list(prompt)
        while len(ids) < len(prompt) + NEW_TOKENS:
            with torch.inference_mode():
                logits = plain(torch.tensor([ids])).logits[0, -1]
            counts = Counter(ids[len(prompt) :])
            ruled = ruled_logits(logits, rules, prompt, counts)
            token = sampled_token(ruled, sampling, len(ids)) if temperature else int(ruled.argmax())
            ids.append(token)
        expected.append(ids[len(prompt) :])
    for method in ("none", "ngram", "any"):
        assert decode("llama", prompts, method, sampling) == expected
    small = {"block_size": 1, "block_count": 90, "token_budget": 7}
    assert decode("llama", prompts, "any", sampling, **small) == expected
    if rules.allowed_token_ids:
        assert {token for ids in expected for token in ids} <= {*range(0, VOCAB, 2)} - {4}


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0, seed=7),
        Sampling(0.6, top_p=0.9, seed=2**63 + 1),
        Sampling(1.5, top_k=20, min_p=0.02, seed=0),
    ],
    ids=["plain", "top_p", "top_k-min_p"],
)
def test_seeded_ids_do_not_depend_on_trees_or_company(sampling, prompts):
    """B13, B17, B19: alone or together, with any draft method, any block size, any budget."""
    alone = [decode("llama", [prompt], "none", sampling)[0] for prompt in prompts]
    for method in ("none", "ngram", "any"):
        assert decode("llama", prompts, method, sampling) == alone
    small = {"block_size": 1, "block_count": 90, "token_budget": 7}
    assert decode("llama", prompts, "any", sampling, **small) == alone
    assert len({tuple(ids) for ids in alone}) > 1


@pytest.mark.parametrize("method", ["none", "ngram", "any"])
def test_nothing_ends_before_the_least_length(method, prompts):
    """What would end the answer cannot come, at whatever node of whatever tree it would."""
    free = decode("llama", prompts, "none", Sampling())
    stops = tuple({ids[2] for ids in free})  # each answer would have ended with its third token
    for least in (0, 1, 5, 24):
        limits = {"stop_token_ids": stops, "min_new_tokens": least}
        answers = decode("llama", prompts, method, Sampling(), limits)
        for ids in answers:
            assert not {*ids[:least]} & {*stops}
            assert len(ids) == NEW_TOKENS or (len(ids) > least and ids[-1] in stops)
        assert least or all(len(ids) <= 3 for ids in answers)


GRAMMARS = {
    "regex": Grammar(GrammarKind.REGEX, "[a-m]{3,9}( [n-z]+){2}[0-9]?"),
    "lark": Grammar(GrammarKind.LARK, 'start: item ("," item)*\nitem: /[a-e]/ ":" /[0-9]{2}/'),
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
def test_a_grammar_is_followed_along_every_branch(grammar, temperature, prompts):
    """The yardstick asks a follower of its own, one token after the other."""
    assert letters.VOCAB == VOCAB
    sampling = Sampling(temperature, seed=5, grammar=grammar)
    plain, grammars = plain_model("llama"), letters.letter_grammars()
    expected = []
    for prompt in prompts:
        ids, follower = list(prompt), grammars.follow(grammar)
        while letters.END not in ids[len(prompt) :] and len(ids) < len(prompt) + NEW_TOKENS:
            with torch.inference_mode():
                logits = plain(torch.tensor([ids])).logits[0, -1]
            logits = logits.double().clone()
            logits[~torch.from_numpy(follower.allowed_behind([]))] = -torch.inf
            ids.append(
                sampled_token(logits, sampling, len(ids)) if temperature else int(logits.argmax())
            )
            follower.extend(ids[-1:])
        expected.append(ids[len(prompt) :])
    for method in ("none", "ngram", "any"):
        answers = decode("llama", prompts, method, sampling, {"ignore_eos": False})
        assert answers == expected
    small = {"block_size": 1, "block_count": 90, "token_budget": 7}
    assert decode("llama", prompts, "any", sampling, {"ignore_eos": False}, **small) == expected
    if grammar.kind is GrammarKind.REGEX:
        ended = [ids for ids in expected if ids[-1] == letters.END]
        assert all(re.fullmatch(grammar.text, letters.spelt(ids)) for ids in ended)


def test_a_request_that_leaves_no_token_ends_alone_and_says_so(prompts):
    """A grammar that is complete before the least length; the others do not notice."""
    talk = Conversation(
        lambda prefix: [],
        ack=ACK,
        make_target=lambda rows: TorchExecutor(target_model("llama", slots=rows), rows),
        grammars=letters.ReadAtOnce(letters.letter_grammars()),
    )
    talk.greet()
    short = Sampling(grammar=Grammar(GrammarKind.REGEX, "[0-9]{2}"))
    broken = talk.open("broken", prompts[0], sampling=short, min_new_tokens=9)
    refused = talk.open(
        "refused", prompts[0], sampling=Sampling(grammar=Grammar(GrammarKind.REGEX, "[0-9"))
    )
    others = [
        talk.open(f"s{i}", prompt, max_new_tokens=NEW_TOKENS, ignore_eos=True)
        for i, prompt in enumerate(prompts)
    ]
    talk.run()
    assert "no token may come" in str(talk.errors.pop(broken))
    assert "sampling.grammar.regex" in str(talk.errors.pop(refused))
    assert not talk.errors
    assert [talk.tokens(one) for one in others] == decode("llama", prompts, "none", Sampling())
