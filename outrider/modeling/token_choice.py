"""From logits to the target's own token: temperature, filters, keyed noise, argmax.

The order is that of `transformers`: temperature, top_k, top_p, min_p. Ties go to the lowest id.
"""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from outrider.modeling.noise import gumbel
from outrider.protocol.decoding import Sampling, TopLogProbs


def greedy_tokens(logits: Tensor) -> Tensor:
    """The most likely token of each row of logits `[num_rows, vocab_size]`, int64 `[num_rows]`."""
    return logits.argmax(dim=-1)


def sampled_token(logits: Tensor, sampling: Sampling, position: int) -> int:
    """Draws one token.

    Args:
        logits: Finite, `[vocab_size]`.
        sampling: With a temperature above 0.
        position: Absolute position of the token drawn.

    Returns:
        A token id, a pure function of the arguments.
    """
    scores, token_ids = filtered_scores(logits, sampling)
    best = (scores + gumbel(sampling.seed, position, token_ids)).argmax()
    return int(token_ids[best])


def filtered_scores(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """The processed distribution, up to a constant, over the tokens that the filters keep.

    Args:
        logits: `[vocab_size]`.
        sampling: With a temperature above 0.

    Returns:
        Unnormalised log-probabilities, float64 `[num_kept]`, and their ids, int64 `[num_kept]`.
    """
    scores = logits.double() / sampling.temperature
    vocab_size = scores.shape[0]
    if not (0 < sampling.top_k < vocab_size or sampling.top_p < 1.0 or sampling.min_p > 0.0):
        return scores, torch.arange(vocab_size, device=scores.device)
    scores, token_ids = scores.sort(descending=True, stable=True)
    kept = vocab_size
    if 0 < sampling.top_k < vocab_size:
        kept = sampling.top_k
    probs = scores[:kept].softmax(dim=0)
    if sampling.top_p < 1.0:
        mass_before = probs.cumsum(dim=0) - probs
        kept = max(1, int((mass_before < sampling.top_p).sum()))
        probs = probs[:kept]
    if sampling.min_p > 0.0:
        kept = int((probs >= sampling.min_p * probs[0]).sum())
    return scores[:kept], token_ids[:kept]


def likely_token(logits: Tensor, token_ids: Collection[int], threshold: float) -> int | None:
    """The likeliest of some tokens, if it is likely enough.

    Args:
        logits: `[vocab_size]`.
        token_ids: At least one.
        threshold: Least probability over that of the most likely token, above 0.

    Returns:
        The token, among equals the lower id; or None.
    """
    best = min(token_ids, key=lambda one: (-float(logits[one]), one))
    behind = float(logits[best]) - float(logits.max())
    return best if behind >= math.log(threshold) else None


def top_log_probs(logits: Tensor, count: int) -> TopLogProbs:
    """The likeliest tokens under raw logits `[vocab_size]`; among equals the lower id first."""
    scores = logits.double().log_softmax(dim=0)
    found, token_ids = scores.sort(descending=True, stable=True)
    return TopLogProbs(tuple(token_ids[:count].tolist()), tuple(found[:count].tolist()))


def log_prob(logits: Tensor, token_id: int) -> float:
    """Log-probability of one token under raw logits `[vocab_size]`."""
    return float(logits.double().log_softmax(dim=0)[token_id])
