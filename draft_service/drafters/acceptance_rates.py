"""How often a guess with given evidence turns out right, learnt while serving."""

from dataclasses import dataclass, field
from typing import NamedTuple

PRIOR_TRIALS = 12.0  # how many outcomes the starting guess is worth
SHARED_TRIALS = 24.0  # how many outcomes the other sessions' experience is worth


class Evidence(NamedTuple):
    """What speaks for a guess.

    Args:
        match_length: Tokens before it that equal the end of the text, at least 1.
        support: How many earlier places agree on it: 0 for one, 1 for a few, 2 for many.
    """

    match_length: int
    support: int = 0


@dataclass(slots=True)
class _Tally:
    trials: float = 0.0
    successes: float = 0.0


@dataclass(slots=True)
class AcceptanceRates:
    """Success rates by evidence.

    Args:
        shared: Rates of all sessions of the worker, told of every outcome too; None at the top.
    """

    shared: "AcceptanceRates | None" = None
    _tallies: dict[Evidence, _Tally] = field(default_factory=dict)

    def rate(self, evidence: Evidence) -> float:
        """Estimated probability that a guess is right, strictly inside (0, 1)."""
        if self.shared is None:
            prior = evidence.match_length / (evidence.match_length + 2.0)
            weight = PRIOR_TRIALS
        else:
            prior, weight = self.shared.rate(evidence), SHARED_TRIALS
        tally = self._tallies.get(evidence, _Tally())
        return (prior * weight + tally.successes) / (weight + tally.trials)

    def note(self, evidence: Evidence, is_right: bool) -> None:
        """Takes one outcome."""
        tally = self._tallies.setdefault(evidence, _Tally())
        tally.trials += 1.0
        tally.successes += float(is_right)
        if self.shared is not None:
            self.shared.note(evidence, is_right)
