"""The canary: does this head know this target? A count over text whose next tokens are known.

A head that was made for another target, or is fed the wrong layers, runs without an error and has
nothing accepted; only counting shows it. Knows no files and no target: features and the target's
own choices are handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.draft_head import DraftHead

# A guess at random hits once in the head's vocabulary; always guessing the commonest token of a
# text hits about one in twenty. A small head of the embedded model, briefly trained, hits 38% and
# 32%; with a norm switch wrong 2% to 4%, with quite other layers 2% to 15%, with a wrong vocabulary
# map none. Twice the habit of guessing one token is what it takes. Layers that are one off (35%)
# pass: only the comparison with other readings of the file shows them.
FLOOR: Final = 0.1


class UselessHead(Exception):
    """A head whose guesses are no better than chance; the message names the likely causes."""


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


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """What a head hit.

    Args:
        first_step: Share of positions where its best guess is the target's greedy token.
        second_step: The same one token further on, fed by the head's own output.
        position_count: Positions that were counted for the first step.
    """

    first_step: float
    second_step: float
    position_count: int


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


def check(result: CanaryResult) -> None:
    """Refuses a head whose guesses are worth nothing.

    Raises:
        UselessHead: A step lies under the floor.
    """
    found = f"of {result.position_count} tokens the head guessed {result.first_step:.0%}"
    if result.first_step < FLOOR:
        raise UselessHead(
            f"{found}, and {FLOOR:.0%} is the least. Likely causes: it was made for another "
            "target; its layer ids are off by one (inputs and outputs are counted in two ways); "
            "norm_before_fc, fc_norm or norm_before_residual is set wrongly"
        )
    if result.second_step < FLOOR:
        raise UselessHead(
            f"{found}, but one step further only {result.second_step:.0%}, and {FLOOR:.0%} is the "
            "least. Likely cause: norm_output is set wrongly, so that it is fed its own output in "
            "a form that it was not trained with"
        )


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
