"""The draft vocabulary: the tokens that answers use most. Pure.

A head that guesses among the frequent tokens only reads a smaller matrix per guess; EAGLE-3 and
FR-Spec choose them by frequency.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outrider.training.conversation import Conversation, LossOn


@dataclass(frozen=True, slots=True, eq=False)
class DraftVocabulary:
    """Tokens that a head can guess.

    Args:
        target_ids: Target id of each draft token, int64 `[draft_vocab_size]`.
        coverage: Share of the counted tokens that are among them, 0 to 1.
    """

    target_ids: NDArray[np.int64]
    coverage: float

    def draft_ids(self, vocab_size: int) -> NDArray[np.int64]:
        """Draft id of each target token, -1 where it has none, `[vocab_size]`."""
        ids = np.full(vocab_size, -1, dtype=np.int64)
        ids[self.target_ids] = np.arange(len(self.target_ids))
        return ids


def count_tokens(
    conversations: Iterable[Conversation], vocab_size: int, loss_on: LossOn
) -> NDArray[np.int64]:
    """How often each token is one that the loss counts, `[vocab_size]`."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for one in conversations:
        counts += np.bincount(one.token_ids[one.first_counted(loss_on) :], minlength=vocab_size)
    return counts


def choose_vocabulary(
    counts: NDArray[np.int64], wanted: int, always: Sequence[int] = ()
) -> DraftVocabulary:
    """Takes the most frequent tokens; a token that never occurs is not worth a row.

    Args:
        counts: Occurrences by target token, `[vocab_size]`.
        wanted: Tokens asked for, at least 1; fewer are taken where fewer occur.
        always: Ids taken first, such as the end of sequence.

    Returns:
        At most `wanted` tokens.
    """
    ranked = np.lexsort((np.arange(len(counts)), -counts))  # ties: the lower id
    frequent = [int(one) for one in ranked[:wanted] if counts[one] > 0]
    chosen = list(dict.fromkeys([*always, *frequent]))[:wanted]
    return vocabulary_of(np.array(sorted(chosen), dtype=np.int64), counts)


def vocabulary_of(target_ids: NDArray[np.int64], counts: NDArray[np.int64]) -> DraftVocabulary:
    """A vocabulary of given tokens.

    Args:
        target_ids: Target id of each draft token, `[draft_vocab_size]`.
        counts: Occurrences by target token, `[vocab_size]`.
    """
    return DraftVocabulary(target_ids, float(counts[target_ids].sum() / max(counts.sum(), 1)))
