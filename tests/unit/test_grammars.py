"""A follower judges each node with its own ancestors, whatever was asked before."""

import random
import re

import numpy as np
import pytest

from outrider.grammars import Grammars
from outrider.protocol.errors import BadGrammar
from outrider.protocol.grammar import Grammar, GrammarKind
from tests.fakes.letters import END, VOCAB, ids_of, letter_grammars, spelt

PATTERN = "(ab|ba)[0-9]{1,3}(xyz)?"


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return letter_grammars()


def allowed(follower, path) -> set[int]:
    mask = follower.allowed_behind(path)
    assert mask.shape == (VOCAB,)
    return set(np.flatnonzero(mask).tolist())


def test_what_may_come_is_what_can_still_match(grammars):
    follower = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN))
    assert {spelt([one])[0] for one in allowed(follower, [])} == {"a", "b"}
    assert END not in allowed(follower, ids_of("ab"))
    assert END in allowed(follower, ids_of("ab1"))
    assert allowed(follower, ids_of("ab123xyz")) == {END}


def test_the_order_of_questions_does_not_matter(grammars):
    """As in trees: along one branch, back, along another, with commits in between."""
    rng = random.Random(3)
    text = ids_of("ab12xyz")
    for _ in range(30):
        follower, committed = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN)), 0
        while committed < len(text):
            for _ in range(3):
                stop = rng.randint(committed, len(text))
                branch = rng.choice([text[committed:stop], ids_of("ba9") if not committed else []])
                fresh = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN))
                fresh.extend(text[:committed])
                assert allowed(follower, branch) == allowed(fresh, branch)
            step = rng.randint(1, 3)
            follower.extend(text[committed : committed + step])
            committed += step


def test_behind_an_end_only_an_end_may_come(grammars):
    follower = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN))
    assert allowed(follower, [*ids_of("ab1"), END]) == {END}
    follower.extend([*ids_of("ab1"), END])


def test_a_walk_along_what_is_allowed_matches(grammars):
    rng = random.Random(7)
    for _ in range(20):
        follower = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN))
        text: list[int] = []
        while not text or text[-1] != END:
            token = rng.choice(sorted(allowed(follower, [])))
            follower.extend([token])
            text.append(token)
        assert re.fullmatch(PATTERN, spelt(text))


def test_tokens_that_do_not_fit_are_told(grammars):
    follower = grammars.follow(Grammar(GrammarKind.REGEX, PATTERN))
    with pytest.raises(BadGrammar):
        follower.extend(ids_of("ac"))


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(GrammarKind.REGEX, "[0-9"),
        Grammar(GrammarKind.LARK, 'start: "a'),
        Grammar(GrammarKind.JSON_SCHEMA, '{"type": "nope"}'),
    ],
)
def test_what_is_no_grammar_is_one_line(grammars, grammar):
    with pytest.raises(BadGrammar) as caught:
        grammars.follow(grammar)
    assert "\n" not in str(caught.value)
    assert str(caught.value)


def test_without_a_tokenizer_there_are_none(tmp_path):
    assert Grammars.of_folder(tmp_path, VOCAB, [END]) is None
