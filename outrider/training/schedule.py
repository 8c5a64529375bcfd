"""How the learning rate runs, and what each step of a chain weighs. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Linear warm-up, then half a cosine.

    Args:
        peak: Learning rate behind the warm-up.
        total_steps: Optimisation steps in all, at least 1.
        warmup_steps: Steps until the peak, at least 0.
        final_share: Of the peak, at the last step, 0 to 1.
    """

    peak: float
    total_steps: int
    warmup_steps: int
    final_share: float

    def rate(self, step: int) -> float:
        """Learning rate of one step, counted from 0."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        span = max(self.total_steps - 1 - self.warmup_steps, 1)
        done = min((step - self.warmup_steps) / span, 1.0)
        cosine = 0.5 * (1.0 + math.cos(math.pi * done))
        return self.peak * (self.final_share + (1.0 - self.final_share) * cosine)


def chain_weights(chain_steps: int, decay: float) -> list[float]:
    """Weight of each step's loss: 1, decay, decay^2, ... (EAGLE-3's training uses 0.8)."""
    return [decay**step for step in range(chain_steps)]


def expected_length(accuracies: Sequence[float]) -> float:
    """Tokens per round of a chain whose steps are right with these probabilities, one by one.

    The sum of the products of the first accuracies, and the bonus token.
    """
    survival, length = 1.0, 1.0
    for accuracy in accuracies:
        survival *= accuracy
        length += survival
    return length
