"""What the target has to say of conversations: features, and its likeliest next tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FEATURE_DTYPE = torch.bfloat16
PROB_DTYPE = torch.float16


class Captured(NamedTuple):
    """Of conversations laid end to end.

    Args:
        features: bfloat16 `[num_rows, feature_size]`.
        likely_ids: Likeliest draft tokens behind each row, int32 `[num_rows, k]`.
        likely_probs: Their probabilities among all draft tokens, float16 `[num_rows, k]`; 0 where
            nobody asks.
    """

    features: Tensor
    likely_ids: Tensor
    likely_probs: Tensor


FeatureSource = Callable[[Sequence[int]], Captured]
"""Conversations by their indices, laid end to end in that order."""


def join(parts: Sequence[Captured]) -> Captured:
    """Lays captured rows end to end."""
    return Captured(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
