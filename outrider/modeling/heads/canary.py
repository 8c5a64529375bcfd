"""Counts what a head guesses right over text whose next tokens are known: the canary's figures.

Knows no files and no target: features and the target's own choices are handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from outrider.canary import CanaryResult
from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.draft_head import DraftHead


@dataclass(frozen=True, slots=True)
class CanaryText:
    """One text as the target saw it.

    Args:
        token_ids: int64 `[num_tokens]`, at least 3.
        features: At the head's boundaries, of each position, `[num_tokens, feature_size]`.
        greedy_ids: The target's most likely token behind each position, int64 `[num_tokens]`.
        first_answer: First position that the target wrote itself; only guesses from there on
            count, because drafts are guesses of the target's words, not of its users'.
    """

    token_ids: Tensor
    features: Tensor
    greedy_ids: Tensor
    first_answer: int = 0


@torch.inference_mode()
def measure(head: DraftHead, texts: Sequence[CanaryText]) -> CanaryResult:
    """Counts the hits of a head.

    Args:
        head: Ready to run.
        texts: At least one with something to count.

    Returns:
        Shares over all texts together.
    """
    hits = [_hits(head, text) for text in texts]
    first = torch.cat([first for first, _ in hits]).float()
    second = torch.cat([second for _, second in hits]).float()
    return CanaryResult(float(first.mean()), float(second.mean()), len(first))


def _hits(head: DraftHead, text: CanaryText) -> tuple[Tensor, Tensor]:
    """Hit or not, of each counted position, for both steps.

    Row p joins the feature of position p with the token at p + 1; its guess is the token at p + 2,
    which the target chose behind position p + 1.
    """
    attend = _TwoSteps()
    weight = next(iter(head.parameters()))  # type: ignore[attr-defined]
    token_ids = text.token_ids.to(weight.device)
    features = text.features.to(weight.device, weight.dtype)
    positions = torch.arange(len(token_ids) - 1, device=weight.device)
    first = head(token_ids[1:], head.fuse(features[:-1]), positions, attend.first)
    second = head(token_ids[2:], first.feedback[:-1], positions[1:], attend.second)
    return (
        _are_hits(head, first.logit_input, text, step=1),
        _are_hits(head, second.logit_input, text, step=2),
    )


def _are_hits(head: DraftHead, logit_input: Tensor, text: CanaryText, step: int) -> Tensor:
    logits = head.logits(logit_input)
    guesses = logits.argmax(dim=-1)
    if head.target_ids is not None:
        guesses = head.target_ids[guesses]
    # The first of the rows guesses behind position `step`.
    hits = (guesses.cpu() == text.greedy_ids[step:]) & ~logits.isnan().any(dim=-1).cpu()
    return hits[max(0, text.first_answer - 1 - step) :]


class _TwoSteps:
    """Attention of a whole text's drafts at once: each second step sees the true rows up to its
    own first step, and itself; never the second steps of other rows."""

    def __init__(self) -> None:
        self._true_rows: dict[int, tuple[Tensor, Tensor]] = {}

    def first(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        self._true_rows[layer] = (key, value)
        return causal_attend(layer, query, key, value)

    def second(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        num_rows = query.shape[0]
        true_keys, true_values = self._true_rows[layer]
        keys = torch.cat([true_keys[:num_rows], key]).transpose(0, 1)
        values = torch.cat([true_values[:num_rows], value]).transpose(0, 1)
        earlier = torch.ones(num_rows, num_rows, dtype=torch.bool, device=query.device).tril()
        itself = torch.eye(num_rows, dtype=torch.bool, device=query.device)
        mixed = functional.scaled_dot_product_attention(
            query.transpose(0, 1),
            keys,
            values,
            attn_mask=torch.cat([earlier, itself], dim=1),
            enable_gqa=True,
        )
        return mixed.transpose(0, 1)
