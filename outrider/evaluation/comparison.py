"""Compares token ids that ought to be equal. Policy: plain values, no clock, no I/O.

Knows nothing of how the ids came about; a margin is whatever the caller measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where two sequences part.

    Args:
        position: First index at which they differ, from 0.
        expected: Id that was expected there; None: the expected sequence had ended.
        actual: Id that came; None: the actual sequence had ended.
        margin: Expected logit less the best other one at this position; None: not known.
    """

    position: int
    expected: int | None
    actual: int | None
    margin: float | None

    def is_within(self, tolerance: float | None) -> bool:
        """True where the margin is known and not above the tolerance.

        Args:
            tolerance: In logits, at least 0; None: nothing is tolerated.
        """
        return tolerance is not None and self.margin is not None and self.margin <= tolerance


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the prompts of a row.

    Args:
        prompts: Pairs compared.
        tokens: Ids that came.
        equal: Pairs without a difference.
        mismatches: Pairs with one.
        beyond_tolerance: Of mismatches, those outside the tolerance.
    """

    prompts: int
    tokens: int
    equal: int
    mismatches: int
    beyond_tolerance: int


def first_mismatch(
    expected: Sequence[int], actual: Sequence[int], margins: Sequence[float] = ()
) -> Mismatch | None:
    """Finds the first difference.

    Args:
        expected: Ids, `[num_expected]`.
        actual: Ids, `[num_actual]`.
        margins: At each position of `expected`; empty: not known.

    Returns:
        The mismatch, or None where the sequences are equal.
    """
    for position in range(max(len(expected), len(actual))):
        wanted = expected[position] if position < len(expected) else None
        came = actual[position] if position < len(actual) else None
        if wanted != came:
            # Beyond either end no near-tie explains the difference: the same ids ended elsewhere.
            known = wanted is not None and came is not None and position < len(margins)
            return Mismatch(position, wanted, came, margins[position] if known else None)
    return None


def tally(
    token_counts: Sequence[int], found: Sequence[Mismatch | None], tolerance: float | None
) -> Tally:
    """Counts a row's comparisons.

    Args:
        token_counts: Ids that came, one count a prompt.
        found: The result of `first_mismatch`, one a prompt.
        tolerance: As for `Mismatch.is_within`.
    """
    mismatches = [mismatch for mismatch in found if mismatch is not None]
    return Tally(
        prompts=len(found),
        tokens=sum(token_counts),
        equal=len(found) - len(mismatches),
        mismatches=len(mismatches),
        beyond_tolerance=sum(not mismatch.is_within(tolerance) for mismatch in mismatches),
    )
