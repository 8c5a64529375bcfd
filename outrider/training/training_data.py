"""The conversations of a run as forward passes: plans first, tensors when their turn comes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from outrider.training.captured import FeatureSource
from outrider.training.chains import ChainPlan, plan_chains
from outrider.training.conversation import Conversation, LossOn
from outrider.training.training_batch import TrainingBatch, make_batch


class PassPlan(NamedTuple):
    """One forward pass.

    Args:
        indices: Conversations.
        draft_ids: Draft id of each token, -1 where it has none, `[num_rows]`.
        chains: The chains in them.
        counts: False: a pass that only keeps a rank in step with the others.
    """

    indices: list[int]
    draft_ids: NDArray[np.int64]
    chains: ChainPlan
    counts: bool


class TrainingData:
    """Conversations with the way to their features.

    Args:
        conversations: All, held-out ones too.
        draft_ids: Draft id of each target token, -1 where it has none, `[vocab_size]`.
        source: Features by index.
        loss_on: Which tokens count.
        chain_steps: Guesses of a chain.
        device: Where the head is.
    """

    def __init__(
        self,
        conversations: Sequence[Conversation],
        draft_ids: NDArray[np.int64],
        source: FeatureSource,
        loss_on: LossOn,
        chain_steps: int,
        device: torch.device,
    ) -> None:
        self.lengths = [len(one) for one in conversations]
        self._conversations, self._draft_ids, self._source = conversations, draft_ids, source
        self._loss_on, self._chain_steps, self._device = loss_on, chain_steps, device

    def plan(
        self, indices: Sequence[int], spare: int, follow_every: int = 1, turn: int = 0
    ) -> PassPlan:
        """Plans one pass.

        Args:
            indices: Its conversations; none for a rank that has nothing left.
            spare: Conversation that is run instead of none, and counts nothing.
            follow_every: As in `plan_chains`.
            turn: As in `plan_chains`.
        """
        taken = list(indices) or [spare]
        parts = [self._conversations[index] for index in taken]
        draft_ids = self._draft_ids[np.concatenate([one.token_ids for one in parts])]
        firsts = [one.first_counted(self._loss_on) for one in parts]
        lengths = [len(one) for one in parts]
        chains = plan_chains(draft_ids, lengths, firsts, self._chain_steps, follow_every, turn)
        return PassPlan(taken, draft_ids, chains, bool(indices))

    def batch(self, plan: PassPlan) -> TrainingBatch:
        """The tensors of one pass."""
        token_ids = [self._conversations[index].token_ids for index in plan.indices]
        captured = self._source(plan.indices)
        return make_batch(token_ids, captured, plan.draft_ids, plan.chains, self._device)
