"""Cross-entropy against the target's own distribution, without keeping the logits.

The logits of many rows over a vocabulary are the largest tensors of training. Here a chunk of rows
at a time is multiplied out, turned into its gradient in place, and multiplied back.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK_ROWS = 512


class SoftTargets(NamedTuple):
    """What the target says of some rows.

    Args:
        ids: Its likeliest draft tokens, int64 `[num_rows, k]`.
        probs: Their probabilities, adding up to 1, `[num_rows, k]`.
    """

    ids: Tensor
    probs: Tensor


class LossRows(NamedTuple):
    """What came of some rows; only `total` has a gradient.

    Args:
        total: Sum over the rows of weight times cross-entropy, a scalar.
        losses: Cross-entropy of each row, not weighted, `[num_rows]`.
        guesses: Likeliest draft token of each row, int64 `[num_rows]`.
    """

    total: Tensor
    losses: Tensor
    guesses: Tensor


def soft_cross_entropy(
    inputs: Tensor,
    weight: Tensor,
    targets: SoftTargets,
    row_weights: Tensor,
    product_dtype: torch.dtype = torch.float32,
) -> LossRows:
    """Cross-entropy of `softmax(inputs @ weight.T)` against soft targets.

    Args:
        inputs: Float32 `[num_rows, H]`.
        weight: Of the language-model head, float32 `[draft_vocab_size, H]`.
        targets: Of the same rows.
        row_weights: Float32 `[num_rows]`.
        product_dtype: What the matrix products read; everything else is float32.
    """
    # Within a Function gradients are always off, so it has to be told.
    wants_grad = torch.is_grad_enabled()
    total, losses, guesses = _SoftCrossEntropy.apply(
        inputs, weight, targets.ids, targets.probs, row_weights, wants_grad, product_dtype
    )  # type: ignore[no-untyped-call]
    return LossRows(total, losses, guesses)


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        target_ids: Tensor,
        target_probs: Tensor,
        row_weights: Tensor,
        wants_grad: bool,
        product_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor, Tensor]:
        needs_inputs, needs_weight = (wants_grad and one for one in ctx.needs_input_grad[:2])
        losses = torch.empty(len(inputs), dtype=torch.float32, device=inputs.device)
        guesses = torch.empty(len(inputs), dtype=torch.int64, device=inputs.device)
        input_grad = torch.empty_like(inputs) if needs_inputs else None
        weight_grad = torch.zeros_like(weight) if needs_weight else None
        rows, matrix = inputs.to(product_dtype), weight.to(product_dtype)
        for begin in range(0, len(inputs), CHUNK_ROWS):
            part = slice(begin, begin + CHUNK_ROWS)
            targets = SoftTargets(target_ids[part], target_probs[part])
            logits = (rows[part] @ matrix.T).float()
            top, guesses[part] = logits.max(dim=-1)
            picked = logits.gather(-1, targets.ids)
            exponentials = logits.sub_(top[:, None]).exp_()
            sums = exponentials.sum(dim=-1)
            losses[part] = sums.log() + top - (picked * targets.probs).sum(dim=-1)
            if input_grad is None and weight_grad is None:
                continue
            grad = _logit_gradient(exponentials, sums, targets, row_weights[part])
            grad = grad.to(product_dtype)
            if input_grad is not None:
                input_grad[part] = grad @ matrix
            if weight_grad is not None:
                weight_grad += grad.T @ rows[part]
        ctx.gradients = input_grad, weight_grad
        ctx.mark_non_differentiable(losses, guesses)
        return (losses * row_weights).sum(), losses, guesses

    @staticmethod
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None, None, None]:
        input_grad, weight_grad = (None if one is None else one * grads[0] for one in ctx.gradients)
        return input_grad, weight_grad, None, None, None, None, None


def _logit_gradient(
    exponentials: Tensor, sums: Tensor, targets: SoftTargets, row_weights: Tensor
) -> Tensor:
    """Weight times (softmax less target), written over the exponentials."""
    gradient = exponentials.mul_((row_weights / sums)[:, None])
    return gradient.scatter_add_(-1, targets.ids, targets.probs * -row_weights[:, None])
