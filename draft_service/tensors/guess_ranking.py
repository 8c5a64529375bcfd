"""From a draft network's logits to ranked guesses: the likeliest tokens, or what noise favours.

At a temperature above 0 the verify worker draws `argmax(log p(token) + gumbel(token))` with noise
that anybody can compute. Coupled ranking adds the same noise to the network's log-probabilities, so
a network that knows the target's distribution also knows the draw. Uncoupled ranking leaves it out,
for comparison. The scores of either become raw probabilities; calibration makes them honest.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from draft_service.drafters.draft_network import Ranking
from outrider.modeling.noise import gumbel
from outrider.modeling.token_choice import filtered_scores

# Of a distribution that is sampled from, as many tokens are looked at: noise lifts none from behind
# them in one draw of a hundred, and looking at all costs as much as a head itself.
MOST_LIKELY = 512


class RankedRow(NamedTuple):
    """Guesses of one row, best first.

    Args:
        token_ids: Target token ids, distinct.
        probs: Raw probabilities; not a number where the logits are not finite.
    """

    token_ids: list[int]
    probs: list[float]


def rank(
    logits: Tensor,
    target_ids: Tensor | None,
    rankings: Sequence[Ranking],
    positions: Sequence[int],
) -> list[RankedRow]:
    """Ranks what follows on some rows.

    Args:
        logits: `[num_rows, draft_vocab_size]`.
        target_ids: Target id of each draft token, int64 `[draft_vocab_size]`; None: the same.
        rankings: How to rank each row, `[num_rows]`.
        positions: Absolute position of the token that each row guesses, `[num_rows]`.
    """
    logits = logits.float()
    width = min(max(ranking.width for ranking in rankings), logits.shape[1])
    scores, draft_ids = logits.log_softmax(dim=-1).topk(width, dim=-1)
    token_ids = draft_ids if target_ids is None else target_ids[draft_ids]
    ids, probs = token_ids.tolist(), scores.exp().tolist()
    return [
        RankedRow(ids[row][: ranking.width], probs[row][: ranking.width])
        if ranking.sampling.is_greedy or not torch.isfinite(scores[row, 0])
        else _sampled(logits[row], target_ids, ranking, position)
        for row, (ranking, position) in enumerate(zip(rankings, positions, strict=True))
    ]


def _sampled(
    logits: Tensor, target_ids: Tensor | None, ranking: Ranking, position: int
) -> RankedRow:
    """Guesses of one row `[draft_vocab_size]` whose tokens are drawn."""
    logits, draft_ids = logits.topk(min(MOST_LIKELY, logits.shape[0]))
    scores, places = filtered_scores(logits, ranking.sampling)
    token_ids = draft_ids[places]
    if target_ids is not None:
        token_ids = target_ids[token_ids]
    if ranking.is_coupled:
        scores = scores + gumbel(ranking.sampling.seed, position, token_ids)
    probs, order = scores.softmax(dim=0).topk(min(ranking.width, scores.shape[0]))
    return RankedRow(token_ids[order].tolist(), probs.tolist())
