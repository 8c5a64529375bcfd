"""Bias, penalties and bans against transformers and against a loop over the vocabulary."""

import math
from typing import Any

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from outrider.modeling.ruled_logits import ruled_logits
from outrider.protocol.logit_rules import LogitRules

VOCAB = 23
PROMPT, ANSWER = [3, 3, 5, 8], [5, 9, 9, 9]
COUNTS = {5: 1, 9: 3}


@pytest.fixture
def logits():
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(4))


def slowly(logits, rules, barred):
    """One token at a time."""
    scores = []
    for token, logit in enumerate(logits.tolist()):
        score = logit + dict(rules.logit_bias).get(token, 0.0)
        if token in PROMPT + ANSWER:
            factor = rules.repetition_penalty
            score = score * factor if score < 0 else score / factor
        if token in ANSWER:
            score -= rules.presence_penalty + rules.frequency_penalty * ANSWER.count(token)
        if rules.allowed_token_ids and token not in rules.allowed_token_ids:
            score = -math.inf
        if token in rules.banned_token_ids or token in barred:
            score = -math.inf
        scores.append(score)
    return scores


def test_the_repetition_penalty_is_that_of_transformers(logits):
    theirs: Any = RepetitionPenaltyLogitsProcessor(1.3)
    expected = theirs(torch.tensor([PROMPT + ANSWER]), logits.double()[None])[0]
    actual = ruled_logits(logits, LogitRules(repetition_penalty=1.3), PROMPT, COUNTS)
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("barred", [(), (2, 5)])
@pytest.mark.parametrize(
    "rules",
    [
        LogitRules(presence_penalty=0.7),
        LogitRules(frequency_penalty=-1.2),
        LogitRules(logit_bias=((0, 3.0), (9, -100.0))),
        LogitRules(allowed_token_ids=(1, 5, 9, 20), banned_token_ids=(9, 4)),
        LogitRules(0.5, 0.3, 0.2, ((5, -4.0), (8, 1.5)), (), (1, 3)),
        LogitRules(1.7, -0.3, 0.9, ((5, -4.0), (8, 1.5)), tuple(range(3, 20)), (4,)),
    ],
)
def test_all_at_once_equals_one_token_at_a_time(logits, rules, barred):
    before = logits.clone()
    actual = ruled_logits(logits, rules, PROMPT, COUNTS, barred)
    assert actual.tolist() == pytest.approx(slowly(logits, rules, barred))
    assert torch.equal(logits, before)
    assert actual.dtype is torch.float64


def test_logits_that_are_float64_already_are_left_alone(logits):
    wide = logits.double()
    before = wide.clone()
    ruled_logits(wide, LogitRules(banned_token_ids=(1,)), (), {})
    assert torch.equal(wide, before)
