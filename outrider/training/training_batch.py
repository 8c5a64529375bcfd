"""The tensors of one forward pass of training, from conversations and what was captured of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.training.captured import Captured
from outrider.training.chains import ChainPlan
from outrider.training.soft_loss import SoftTargets

MIN_PROB = 1e-6  # what the kept probabilities add up to, at least


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Conversations laid end to end, and the chains that start in them.

    Args:
        token_ids: int64 `[num_rows]`.
        position_ids: Within each conversation, int64 `[num_rows]`.
        draft_ids: Draft id of each token, -1 where it has none, int64 `[num_rows]`.
        features: `[num_rows, feature_size]`.
        targets: Of the token behind each row, `[num_rows, k]`.
        lengths: Rows of each conversation.
        starts: Row of each chain's start, int64 `[num_chains]`.
        reached: As in `ChainPlan`, bool `[chain_steps, num_chains]`.
        counted: As in `ChainPlan`, bool `[chain_steps, num_chains]`.
        followed: As in `ChainPlan`, int64 `[num_followed]`.
        followed_counts: Followed chains of each conversation.
        followable: As in `ChainPlan`.
    """

    token_ids: Tensor
    position_ids: Tensor
    draft_ids: Tensor
    features: Tensor
    targets: SoftTargets
    lengths: list[int]
    starts: Tensor
    reached: Tensor
    counted: Tensor
    followed: Tensor
    followed_counts: list[int]
    followable: int


def make_batch(
    token_ids: Sequence[NDArray[np.int32]],
    captured: Captured,
    draft_ids: NDArray[np.int64],
    plan: ChainPlan,
    device: torch.device,
) -> TrainingBatch:
    """Puts one forward pass together.

    Args:
        token_ids: Of each conversation.
        captured: Of the same conversations.
        draft_ids: Draft id of each token, -1 where it has none, `[num_rows]`.
        plan: Of the chains.
        device: Where the head is.
    """
    probs = captured.likely_probs.to(device, torch.float32)
    probs = probs / probs.sum(dim=-1, keepdim=True).clamp(min=MIN_PROB)
    positions = [np.arange(len(part)) for part in token_ids]
    part_of_chain = np.repeat(np.arange(len(token_ids)), plan.counts_by_part)
    followed_counts = np.bincount(part_of_chain[plan.followed], minlength=len(token_ids))

    def placed(array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(device)

    return TrainingBatch(
        token_ids=placed(np.concatenate(token_ids).astype(np.int64)),
        position_ids=placed(np.concatenate(positions)),
        draft_ids=placed(draft_ids),
        features=captured.features.to(device),
        targets=SoftTargets(captured.likely_ids.to(device, torch.int64), probs),
        lengths=[len(part) for part in token_ids],
        starts=placed(plan.starts),
        reached=placed(plan.reached),
        counted=placed(plan.counted),
        followed=placed(plan.followed),
        followed_counts=followed_counts.tolist(),
        followable=plan.followable,
    )
