"""A tokenizer whose tokens are letters, digits and pairs of them."""

import string
from itertools import pairwise

from llguidance import LLTokenizer

from outrider.grammars import Grammars
from tests.fakes.conversation import EOS

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


def letter_grammars() -> Grammars:
    """Grammars over these tokens."""
    return Grammars(LLTokenizer(_Wrapper(), VOCAB, [END]), VOCAB)  # type: ignore[arg-type]


def spelt(token_ids: list[int]) -> str:
    """The text of some tokens."""
    return b"".join(PIECES[one] for one in token_ids if one != END).decode()


def ids_of(text: str) -> list[int]:
    """One token a letter."""
    return [PIECES.index(one.encode()) for one in text]
