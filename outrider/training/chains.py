"""Where the training-time test begins its chains, and which of their guesses count. Pure.

Row p joins the feature of position p with the token at p + 1. A chain that starts at row p guesses
the token at p + 2 in step 0, at p + 3 in step 1, and so on; each step is given the text's own token
for the guess before, as if that had been accepted (EAGLE-3, section 3.2). A token outside the draft
vocabulary can never have been guessed, so it ends the chain that would have to go through it.

Later guesses cost as much as first ones and teach less. So of every few chains only one may be
followed beyond its first guess; which one changes from pass to pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlan:
    """The chains of conversations laid end to end.

    Args:
        starts: Row of each chain's start, rising, int64 `[num_chains]`.
        counts_by_part: Chains of each conversation, `[num_conversations]`.
        reached: The text has a token to guess, and those before it in the chain could be guessed,
            bool `[chain_steps, num_chains]`.
        counted: It can be guessed itself, so it enters the loss, bool `[chain_steps, num_chains]`.
        followed: Chains that have a second guess which counts, rising, int64 `[num_followed]`; no
            later guess of another chain is reached or counted.
        followable: Chains that were let go on, whether they then had a second guess or not.
    """

    starts: NDArray[np.int64]
    counts_by_part: list[int]
    reached: NDArray[np.bool_]
    counted: NDArray[np.bool_]
    followed: NDArray[np.int64]
    followable: int


def plan_chains(
    draft_ids: NDArray[np.int64],
    lengths: Sequence[int],
    first_counted: Sequence[int],
    chain_steps: int,
    follow_every: int = 1,
    turn: int = 0,
) -> ChainPlan:
    """Plans one forward pass.

    Args:
        draft_ids: Draft id of each token, -1 where it has none, `[num_rows]`.
        lengths: Tokens of each conversation; they add up to num_rows.
        first_counted: In each conversation, the first token that the loss counts, at least 2.
        chain_steps: Guesses of a chain, at least 1.
        follow_every: One chain of so many goes on beyond its first guess, at least 1.
        turn: Which of them; any number.
    """
    starts: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    ends: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    begin = 0
    for length, first in zip(lengths, first_counted, strict=True):
        rows = np.arange(begin + first - 2, begin + length - 2, dtype=np.int64)
        starts.append(rows)
        ends.append(np.full(len(rows), begin + length, dtype=np.int64))
        begin += length
    start, end = np.concatenate(starts), np.concatenate(ends)
    label = start[None] + 2 + np.arange(chain_steps)[:, None]  # [chain_steps, num_chains]
    known = (label < end) & (draft_ids[np.minimum(label, len(draft_ids) - 1)] >= 0)
    counted = np.logical_and.accumulate(known, axis=0)
    reached = label < end
    reached[1:] &= counted[:-1]
    parts = [len(rows) for rows in starts[1:]]
    # Counted within each conversation: the same ones, whatever else is in the pass.
    number = np.concatenate([np.arange(count) for count in [0, *parts]])
    goes_on = number % follow_every == turn % follow_every
    counted[1:] &= goes_on
    reached[1:] &= goes_on
    followed = np.flatnonzero(counted[1:2].any(axis=0))
    return ChainPlan(start, parts, reached, counted, followed, int(goes_on.sum()))
