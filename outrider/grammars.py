"""Follows a grammar token by token, through the library `llguidance`.

A follower stands behind the committed tokens of one session. It is asked for the nodes of a tree
top down, goes ahead along a path and comes back, so that each node is judged with its own
ancestors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from numpy.typing import NDArray

from outrider.protocol.errors import BadGrammar
from outrider.protocol.grammar import Grammar, GrammarKind

TOKENIZER_FILE = "tokenizer.json"


class GrammarFollower:
    """One session's place in its grammar.

    Args:
        matcher: At the beginning.
        vocab_size: Of the target; ids beyond the tokenizer's are never allowed.
        eos_token_ids: Where the grammar is complete, one of these may come, and nothing behind it.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int, eos_token_ids: Sequence[int]) -> None:
        self._matcher, self._vocab_size = matcher, vocab_size
        self._eos_token_ids = list(eos_token_ids)
        self._ahead: list[int] = []  # behind the committed tokens

    def allowed_behind(self, path: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may come behind some more tokens, `[vocab_size]`.

        Args:
            path: From behind the committed tokens on; each was allowed at its place.

        Raises:
            BadGrammar: One was not, or the grammar is too much for the library.
        """
        allowed = np.zeros(self._vocab_size, dtype=np.bool_)
        if not {*path}.isdisjoint(self._eos_token_ids):
            allowed[self._eos_token_ids] = True  # whatever comes here will be cut off
            return allowed
        self._go(path)
        words = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        self._check()
        known = np.unpackbits(words, bitorder="little")[: self._vocab_size]
        allowed[: len(known)] = known
        return allowed

    def extend(self, token_ids: Sequence[int]) -> None:
        """Takes tokens that were committed.

        Raises:
            BadGrammar: One was not allowed at its place.
        """
        ends = [place for place, one in enumerate(token_ids) if one in self._eos_token_ids]
        self._go(token_ids[: ends[0]] if ends else token_ids)
        self._ahead = []

    def _go(self, path: Sequence[int]) -> None:
        """Comes back to where the two paths part, and goes on from there."""
        common = 0
        for ours, theirs in zip(self._ahead, path, strict=False):
            if ours != theirs:
                break
            common += 1
        if len(self._ahead) > common:
            self._matcher.rollback(len(self._ahead) - common)
        self._ahead = list(path)
        missing = list(path[common:])
        if missing:
            self._matcher.consume_tokens(missing)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise BadGrammar(_first_line(self._matcher))


class Grammars:
    """Reads grammars for one tokenizer.

    Args:
        tokenizer: The target's, with its end-of-sequence ids.
        vocab_size: Of the target.
    """

    def __init__(self, tokenizer: LLTokenizer, vocab_size: int) -> None:
        self._tokenizer, self._vocab_size = tokenizer, vocab_size

    @classmethod
    def of_folder(cls, folder: Path, vocab_size: int, eos_token_ids: Sequence[int]) -> Self | None:
        """For the tokenizer that lies beside a target's weights; None where there is none."""
        path = folder / TOKENIZER_FILE
        if not path.is_file() or not eos_token_ids:
            return None
        text = path.read_text(encoding="utf-8")
        return cls(LLTokenizer(text, vocab_size, list(eos_token_ids)), vocab_size)

    def follow(self, grammar: Grammar) -> GrammarFollower:
        """Begins a session.

        Raises:
            BadGrammar: The grammar is not one.
        """
        matcher = LLMatcher(self._tokenizer, _written(grammar), log_level=0)
        if matcher.is_error():
            raise BadGrammar(_first_line(matcher))
        return GrammarFollower(matcher, self._vocab_size, self._tokenizer.eos_tokens)


def _written(grammar: Grammar) -> str:
    """As the library reads it."""
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return LLMatcher.grammar_from_json_schema(grammar.text)
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(grammar.text)
        case GrammarKind.LARK:
            return LLMatcher.grammar_from_lark(grammar.text)


def _first_line(matcher: LLMatcher) -> str:
    """What is wrong, without the library's own state."""
    return matcher.get_error().split("\n", 1)[0]
