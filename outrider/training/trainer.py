"""Takes optimisation steps and measures held-out conversations; owns no files and no clock."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from outrider.training.batches import pack, share_out
from outrider.training.figures import ChainSums, Figures, figures_of
from outrider.training.head_training import ObjectiveAndSums
from outrider.training.optimiser import Optimiser
from outrider.training.parallel import Ranks
from outrider.training.schedule import chain_weights
from outrider.training.training_data import PassPlan, TrainingData


class StepOutcome(NamedTuple):
    """One optimisation step.

    Args:
        objective: What was minimised, over the whole batch.
        gradient_norm: Before clipping.
        figures: Of the guesses, before the step.
    """

    objective: float
    gradient_norm: float
    figures: Figures


class Trainer:
    """One rank's part of the work; every rank makes the same calls.

    Args:
        data: Conversations and features.
        optimiser: Around the head's objective.
        ranks: Who trains together.
        step_decay: Weight of a chain step's loss over that of the step before.
        chain_steps: Guesses of a chain.
        micro_tokens: Most tokens of one forward pass; more is accumulated.
        follow_every: While learning, one chain of so many goes on beyond its first guess.
    """

    def __init__(
        self,
        data: TrainingData,
        optimiser: Optimiser,
        ranks: Ranks,
        step_decay: float,
        chain_steps: int,
        micro_tokens: int,
        follow_every: int = 1,
    ) -> None:
        self._data, self._optimiser, self._ranks = data, optimiser, ranks
        self._micro_tokens, self._follow_every = micro_tokens, follow_every
        weights = chain_weights(chain_steps, step_decay)
        self._weights = torch.tensor(weights, dtype=torch.float64, device=ranks.device)

    def step(self, batch: Sequence[int], rate: float, turn: int = 0) -> StepOutcome:
        """One step over a batch of conversations.

        Args:
            batch: Of all ranks together; each takes its share.
            rate: Learning rate.
            turn: Which chains are followed, where not all are; the number of the step.
        """
        plans = self._share(batch, self._follow_every, turn)
        scales = self._scales(plans)
        objective = torch.zeros((), dtype=torch.float64, device=self._ranks.device)
        sums = torch.zeros(len(ChainSums._fields), len(scales), dtype=torch.float64)
        sums = sums.to(self._ranks.device)
        for number, plan in enumerate(plans):
            with self._optimiser.joining(is_last=number == len(plans) - 1):
                result = self._run(plan, scales * plan.counts)
                self._optimiser.backward(result.objective)
            objective += result.objective.detach().double()
            sums += result.sums * plan.counts
        norm = self._optimiser.step(rate)
        objective = self._ranks.add_up(objective) / self._ranks.count
        return StepOutcome(float(objective), norm, self._figures(sums))

    @torch.no_grad()
    def measure(self, indices: Sequence[int]) -> Figures:
        """Guesses over conversations without learning from them."""
        sums: Tensor | float = 0.0
        for batch in pack(indices, self._data.lengths, self._micro_tokens * self._ranks.count):
            plans = self._share(batch, 1, 0)
            for plan in plans:
                scales = torch.zeros(len(self._weights), device=self._ranks.device)
                result = self._run(plan, scales)
                sums = sums + result.sums * plan.counts
        assert isinstance(sums, Tensor), "there is at least one conversation"
        return self._figures(sums)

    def _run(self, plan: PassPlan, scales: Tensor) -> ObjectiveAndSums:
        result: ObjectiveAndSums = self._optimiser.module(self._data.batch(plan), scales)
        return result

    def _share(self, batch: Sequence[int], follow_every: int, turn: int) -> list[PassPlan]:
        shares = share_out(batch, self._data.lengths, self._ranks.count, self._micro_tokens)
        own = shares[self._ranks.rank]
        return [self._data.plan(one, batch[0], follow_every, turn) for one in own]

    def _scales(self, plans: Sequence[PassPlan]) -> Tensor:
        """What a guess of each chain step weighs: the weighted mean over all ranks' guesses."""
        counted = sum(torch.from_numpy(p.chains.counted).sum(dim=1) * p.counts for p in plans)
        assert isinstance(counted, Tensor)
        total = self._ranks.add_up(counted.to(self._ranks.device, torch.float64))
        # Gradients are averaged over the ranks, and are meant to be added up.
        return (self._weights / total.clamp(min=1.0) * self._ranks.count).float()

    def _figures(self, sums: Tensor) -> Figures:
        return figures_of(ChainSums(*self._ranks.add_up(sums).tolist()))
