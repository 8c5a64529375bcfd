"""Whether a draft model's token ids mean what the target's do.

Guesses cannot change a token, so this is not about correctness: a draft model with other ids would
be useless and nobody would be told why. No torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tokenizers import Tokenizer

from outrider.protocol.fingerprints import tokenizer_fingerprint


@dataclass(frozen=True, slots=True)
class BuiltFor:
    """The target that a draft model was found to fit; the defaults fit any.

    Args:
        tokenizer_fingerprint: Of its tokenizer.
        vocab_size: Width of its logits.
    """

    tokenizer_fingerprint: str = ""
    vocab_size: int = 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a tokenizer's ids stand for.

    Args:
        fingerprint: Of its tokenizer.json.
        tokens: Token of each id.
    """

    fingerprint: str
    tokens: Mapping[int, str]

    @classmethod
    def parsed(cls, tokenizer_json: str) -> Self:
        """Reads the content of a tokenizer.json.

        Raises:
            ValueError: It is not one.
        """
        fingerprint = tokenizer_fingerprint(tokenizer_json)
        try:
            tokenizer = Tokenizer.from_str(tokenizer_json)
        except Exception as error:  # tokenizers raises plain Exception
            raise ValueError(str(error)) from None
        ids = tokenizer.get_vocab(with_added_tokens=True)
        return cls(fingerprint, {token_id: token for token, token_id in ids.items()})

    @property
    def id_end(self) -> int:
        """All ids are below this number."""
        return max(self.tokens, default=-1) + 1


def misfit(draft: Vocabulary, target: Vocabulary) -> str:
    """Why a draft model cannot guess for a target, or "" where it can.

    An id that only one of the two has does no harm: it is not guessed, or not understood.
    """
    if draft.fingerprint == target.fingerprint:
        return ""
    shared = sorted(draft.tokens.keys() & target.tokens.keys())
    wrong = [one for one in shared if draft.tokens[one] != target.tokens[one]]
    if not wrong and shared:
        return ""
    sizes = f"it has {len(draft.tokens)} tokens, the target {len(target.tokens)}"
    if not wrong:
        return f"{sizes}, and no id in common"
    first = wrong[0]
    return (
        f"{sizes}, and {len(wrong)} ids stand for different ones, such as {first} for "
        f"{draft.tokens[first]!r} here and {target.tokens[first]!r} there"
    )
