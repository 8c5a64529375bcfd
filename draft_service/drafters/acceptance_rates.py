"""How often a guess with a given length of evidence turns out right, learnt while serving."""

from dataclasses import dataclass, field

PRIOR_TRIALS = 12.0  # how many outcomes the starting guess is worth
SHARED_TRIALS = 24.0  # how many outcomes the other sessions' experience is worth


@dataclass(slots=True)
class _Tally:
    trials: float = 0.0
    successes: float = 0.0


@dataclass(slots=True)
class AcceptanceRates:
    """Success rates by evidence, a small whole number such as a match length.

    Args:
        shared: Rates of all sessions of the worker, told of every outcome too; None at the top.
    """

    shared: "AcceptanceRates | None" = None
    _tallies: dict[int, _Tally] = field(default_factory=dict)

    def rate(self, evidence: int) -> float:
        """Estimated probability that a guess is right, strictly inside (0, 1).

        Args:
            evidence: At least 1.
        """
        if self.shared is None:
            prior, weight = evidence / (evidence + 2.0), PRIOR_TRIALS
        else:
            prior, weight = self.shared.rate(evidence), SHARED_TRIALS
        tally = self._tallies.get(evidence, _Tally())
        return (prior * weight + tally.successes) / (weight + tally.trials)

    def note(self, evidence: int, is_right: bool) -> None:
        """Takes one outcome."""
        tally = self._tallies.setdefault(evidence, _Tally())
        tally.trials += 1.0
        tally.successes += float(is_right)
        if self.shared is not None:
            self.shared.note(evidence, is_right)
