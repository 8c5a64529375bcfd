"""A tokenizer whose tokens are letters, digits and pairs of them."""

import string
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from llguidance import LLTokenizer

from outrider.grammars import Grammars
from outrider.protocol.grammar import Grammar
from tests.fakes.conversation import EOS
from verify_service.step import Follower

END = EOS
VOCAB = 61
_CHARACTERS = string.ascii_lowercase + string.digits + " {}:,"
PIECES = [f"<{number}>".encode() for number in range(EOS + 1)]
PIECES += [character.encode() for character in _CHARACTERS]
PIECES += [a + b for a, b in pairwise(PIECES[EOS + 1 :])]
PIECES = PIECES[:VOCAB]


class _Wrapper:
    """What the library asks of a tokenizer."""

    eos_token_id, bos_token_id = END, None
    tokens, special_token_ids = PIECES, [*range(EOS + 1)]
    is_tokenizer_wrapper = True

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [PIECES.index(bytes([one])) for one in data]


class ReadAtOnce:
    """A `GrammarSource` without threads.

    Args:
        reader: Reads them.
    """

    def __init__(self, reader: Grammars) -> None:
        self._reader = reader

    def begin(self, grammar: Grammar, token_ids: Sequence[int]) -> "ReadAtOnce.Pending":
        """As `GrammarSource.begin`."""
        return ReadAtOnce.Pending(self._reader, grammar, token_ids)

    class Pending(NamedTuple):
        """A `PendingFollower` that is read when it is asked for."""

        reader: Grammars
        grammar: Grammar
        token_ids: Sequence[int]

        def ready(self) -> Follower:
            """As `PendingFollower.ready`."""
            follower = self.reader.follow(self.grammar)
            follower.extend(self.token_ids)
            return follower


def letter_grammars() -> Grammars:
    """Grammars over these tokens."""
    return Grammars(LLTokenizer(_Wrapper(), VOCAB, [END]), VOCAB)  # type: ignore[arg-type]


def spelt(token_ids: list[int]) -> str:
    """The text of some tokens."""
    return b"".join(PIECES[one] for one in token_ids if one != END).decode()


def ids_of(text: str) -> list[int]:
    """One token a letter."""
    return [PIECES.index(one.encode()) for one in text]
