"""From logits to the target's own token: temperature, filters, keyed noise, argmax.

The order is that of `transformers`: temperature, top_k, top_p, min_p. Ties go to the lowest id.
"""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from outrider.modeling.noise import gumbel
from outrider.protocol.decoding import Sampling, TopLogProbs

FIRST_LOOK = 256  # tokens that are sorted for top_p and min_p at first
LOOK_FURTHER = 8


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
    has_top_k = 0 < sampling.top_k < vocab_size
    if not (has_top_k or sampling.top_p < 1.0 or sampling.min_p > 0.0):
        return scores, torch.arange(vocab_size, device=scores.device)
    if has_top_k:
        found, token_ids = _leading(scores, sampling.top_k)
        total = found.logsumexp(dim=0)
        kept = _kept(found, total, sampling)
        return found[:kept], token_ids[:kept]
    # A whole vocabulary takes 50 times as long to sort as to search for what stands in front.
    total, count = scores.logsumexp(dim=0), min(FIRST_LOOK, vocab_size)
    while True:
        found, token_ids = _leading(scores, count)
        kept = _kept(found, total, sampling)
        if kept < count or count == vocab_size:
            return found[:kept], token_ids[:kept]
        count = min(count * LOOK_FURTHER, vocab_size)


def _leading(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest of some scores, falling, and their ids; among equals the lower id first."""
    least = scores.topk(max(1, count)).values[-1]
    token_ids = (scores >= least).nonzero().squeeze(1)
    found, order = scores[token_ids].sort(descending=True, stable=True)
    return found[:count], token_ids[order[:count]]


def _kept(found: Tensor, total: Tensor, sampling: Sampling) -> int:
    """How many of the leading scores top_p and min_p leave, at least 1.

    Args:
        found: Falling.
        total: Logarithm of the sum of what top_p is a share of.
        sampling: With these filters.
    """
    probs = (found - total).exp()
    kept = len(probs)
    if sampling.top_p < 1.0:
        mass_before = probs.cumsum(dim=0) - probs
        kept = max(1, int((mass_before < sampling.top_p).sum()))
    if sampling.min_p > 0.0:
        kept = int((probs[:kept] >= sampling.min_p * probs[0]).sum())
    return kept


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
    found, token_ids = _leading(logits.double().log_softmax(dim=0), min(count, logits.shape[0]))
    return TopLogProbs(tuple(token_ids.tolist()), tuple(found.tolist()))


def log_prob(logits: Tensor, token_id: int) -> float:
    """Log-probability of one token under raw logits `[vocab_size]`."""
    return float(logits.double().log_softmax(dim=0)[token_id])
