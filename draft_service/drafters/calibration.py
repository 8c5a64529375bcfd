"""From a draft's own probabilities to those of acceptance, learnt from the verdicts while serving.

For each kind of guess, depth and range of raw probability: how many guesses were right, over how
many should have been. That ratio corrects the next ones, so their order within a range stays.
"""

from bisect import bisect
from collections.abc import Hashable
from dataclasses import dataclass, field

RANGES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96)  # where a new range begins
MAX_DEPTH = 8  # deeper guesses share a row
PRIOR_HITS = 4.0  # how many right guesses the assumption "raw is right" is worth
SHARED_HITS = 8.0  # how many the other sessions' experience is worth
MAX_PROB = 0.99  # nothing is certain


@dataclass(slots=True)
class _Tally:
    expected: float = 0.0
    hits: float = 0.0


@dataclass(slots=True)
class Calibration:
    """Corrections of raw probabilities.

    Args:
        shared: Experience of all sessions of the worker, told of every outcome too; None at the
            top.
    """

    shared: "Calibration | None" = None
    _tallies: dict[tuple[Hashable, int, int], _Tally] = field(default_factory=dict)

    def prob(self, kind: Hashable, depth: int, raw: float) -> float:
        """Estimated probability that a guess is right, given that its parent is.

        Args:
            kind: What sort of guess it is; each has a table of its own.
            depth: Of the guess, at least 1.
            raw: Its probability as the draft sees it, 0 to 1.

        Returns:
            From 0 to 0.99.
        """
        return min(MAX_PROB, raw * self._ratio(_place(kind, depth, raw)))

    def note(self, kind: Hashable, depth: int, raw: float, is_right: bool) -> None:
        """Takes the outcome of a guess whose parent was right."""
        tally = self._tallies.setdefault(_place(kind, depth, raw), _Tally())
        tally.expected += raw
        tally.hits += float(is_right)
        if self.shared is not None:
            self.shared.note(kind, depth, raw, is_right)

    def _ratio(self, place: tuple[Hashable, int, int]) -> float:
        """Right guesses over those that should have been right."""
        prior, weight = 1.0, PRIOR_HITS
        if self.shared is not None:
            prior, weight = self.shared._ratio(place), SHARED_HITS
        tally = self._tallies.get(place)
        if tally is None:
            return prior
        return (prior * weight + tally.hits) / (weight + tally.expected)


def _place(kind: Hashable, depth: int, raw: float) -> tuple[Hashable, int, int]:
    return kind, min(depth, MAX_DEPTH), bisect(RANGES, raw)
