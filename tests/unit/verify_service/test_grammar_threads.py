"""Grammars are read beside the loop; what goes wrong there stays with its session."""

import threading

import numpy as np
import pytest

from outrider.protocol.errors import BadGrammar
from outrider.protocol.grammar import Grammar, GrammarKind
from verify_service.grammar_threads import FutureFollower, GrammarThreads

GRAMMAR = Grammar(GrammarKind.REGEX, "a+")
PATIENCE_S = 10.0


class Place:
    """A follower that remembers what it was given."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []

    def allowed_behind(self, path):
        return np.ones(4, dtype=np.bool_)

    def extend(self, token_ids) -> None:
        self.token_ids += token_ids


class Reader:
    """Reads when it is let to, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_read = threading.Event()
        self.error = error

    def follow(self, grammar: Grammar) -> Place:
        assert self.may_read.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return Place()


def read(pending: FutureFollower) -> object:
    """What comes of it, however long that takes."""
    while (follower := pending.ready()) is None:
        pass
    return follower


def test_a_small_grammar_is_there_at_once_behind_what_was_committed():
    reader = Reader()
    reader.may_read.set()
    place = GrammarThreads(reader).begin(GRAMMAR, [1, 2]).ready()
    assert isinstance(place, Place)
    assert place.token_ids == [1, 2]


def test_a_large_one_is_not_waited_for():
    reader = Reader()
    pending = GrammarThreads(reader).begin(GRAMMAR, [])
    assert pending.ready() is None
    reader.may_read.set()
    assert isinstance(read(pending), Place)


@pytest.mark.parametrize(
    ("error", "words"),
    [(BadGrammar("no such rule"), "no such rule"), (MemoryError(), "MemoryError")],
)
def test_whatever_goes_wrong_is_a_bad_grammar(error, words):
    reader = Reader(error)
    reader.may_read.set()
    pending = GrammarThreads(reader).begin(GRAMMAR, [])
    with pytest.raises(BadGrammar, match=words):
        read(pending)
