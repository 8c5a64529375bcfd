"""Bias, penalties and bans applied to one row of logits, in the order of `LogitRules`."""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from outrider.protocol.logit_rules import LogitRules


def ruled_logits(
    logits: Tensor,
    rules: LogitRules,
    prompt_ids: Collection[int],
    answer_counts: Mapping[int, int],
    barred_ids: Collection[int] = (),
) -> Tensor:
    """The logits that tokens are drawn from.

    The penalties are those of `transformers` (repetition, over prompt and answer) and of the OpenAI
    API (presence and frequency, over the answer).

    Args:
        logits: `[vocab_size]`; left as they are.
        rules: What to do.
        prompt_ids: Tokens of the prompt.
        answer_counts: How often each token stands in the answer before this row.
        barred_ids: Banned as well, at this place.

    Returns:
        Float64 `[vocab_size]`; -inf where a token cannot come.
    """
    scores = logits.double()
    if scores is logits:
        scores = logits.clone()
    if rules.logit_bias:
        scores[_ids([i for i, _ in rules.logit_bias], scores)] += _values(
            [bias for _, bias in rules.logit_bias], scores
        )
    if rules.repetition_penalty != 1.0:
        seen = _ids(sorted({*prompt_ids, *answer_counts}), scores)
        found = scores[seen]
        scores[seen] = torch.where(
            found < 0, found * rules.repetition_penalty, found / rules.repetition_penalty
        )
    if rules.penalises_answer and answer_counts:
        counts = _values(list(answer_counts.values()), scores)
        penalties = rules.presence_penalty + rules.frequency_penalty * counts
        scores[_ids(list(answer_counts), scores)] -= penalties
    if rules.allowed_token_ids:
        allowed = _ids(rules.allowed_token_ids, scores)
        kept = scores[allowed]
        scores = torch.full_like(scores, -torch.inf)
        scores[allowed] = kept
    if banned := [*rules.banned_token_ids, *barred_ids]:
        scores[_ids(banned, scores)] = -torch.inf
    return scores


def _ids(token_ids: Sequence[int], like: Tensor) -> Tensor:
    return torch.tensor(token_ids, dtype=torch.int64, device=like.device)


def _values(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=like.device)
