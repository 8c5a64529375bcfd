"""The canary counts what drafting would have guessed; drafting is spelt out here row by row."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from outrider.canary import FLOOR, CanaryResult, UselessHead, check
from outrider.modeling.heads.canary import CanaryText, measure
from outrider.modeling.heads.draft_head import DraftHead
from outrider.modeling.heads.head_config import HeadConfig
from tests.unit.modeling.heads.tiny_heads import (
    eagle1_config,
    eagle3_config,
    random_rows,
    tiny_head,
)

LENGTH = 12
CONFIGS = [
    eagle3_config(),
    eagle3_config(norm_output=True, num_layers=2),
    eagle1_config(),
]


class _Cache:
    """Keys and values of the rows before, by layer; one row at a time."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self.rows.get(layer, (key[:0], value[:0]))
        keys, values = torch.cat([keys, key]), torch.cat([values, value])
        self.rows[layer] = keys, values
        mixed = functional.scaled_dot_product_attention(
            query.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1), enable_gqa=True
        )
        return mixed.transpose(0, 1)


@torch.inference_mode()
def _drafts(head: DraftHead, token_ids: list[int], features: Tensor) -> tuple[list[int], list[int]]:
    """What a draft worker guesses on each row, and on the row below it."""
    cache, firsts, seconds = _Cache(), [], []
    hidden = head.fuse(features)
    for row in range(len(token_ids) - 1):
        first = head(
            torch.tensor(token_ids[row + 1 : row + 2]),
            hidden[row : row + 1],
            torch.tensor([row]),
            cache.attend,
        )
        firsts.append(_guess(head, first.logit_input))
        if row + 2 == len(token_ids):
            continue
        own = _Cache()
        own.rows = dict(cache.rows)
        second = head(
            torch.tensor(token_ids[row + 2 : row + 3]),
            first.feedback,
            torch.tensor([row + 1]),
            own.attend,
        )
        seconds.append(_guess(head, second.logit_input))
    return firsts, seconds


def _guess(head: DraftHead, logit_input: Tensor) -> int:
    guess = head.logits(logit_input).argmax()
    return int(guess if head.target_ids is None else head.target_ids[guess])


def _text(config: HeadConfig, greedy_ids: list[int], first_answer: int = 0) -> CanaryText:
    token_ids, features = random_rows(config, LENGTH)
    return CanaryText(torch.tensor(token_ids), features, torch.tensor(greedy_ids), first_answer)


@pytest.mark.parametrize("config", CONFIGS)
def test_both_steps_are_those_of_drafting(config: HeadConfig) -> None:
    head = tiny_head(config)
    firsts, seconds = _drafts(head, *random_rows(config, LENGTH))
    assert len(set(firsts + seconds)) > 3, "guesses must differ for the comparison to mean much"
    first = measure(head, [_text(config, [-1, *firsts])])
    assert (first.first_step, first.position_count) == (1.0, LENGTH - 1)
    assert measure(head, [_text(config, [-1, -1, *seconds])]).second_step == 1.0


def test_only_the_targets_own_words_count() -> None:
    config = eagle3_config()
    head = tiny_head(config)
    firsts, _ = _drafts(head, *random_rows(config, LENGTH))
    # The guess of row p is the token behind position p + 1: position 6 is guessed by row 4.
    wrong_before = [-1, *[-1] * 4, *firsts[4:]]
    assert measure(head, [_text(config, wrong_before, first_answer=6)]).first_step == 1.0
    assert measure(head, [_text(config, wrong_before, first_answer=5)]).first_step < 1.0


def test_texts_count_by_their_length() -> None:
    config = eagle3_config()
    head = tiny_head(config)
    firsts, _ = _drafts(head, *random_rows(config, LENGTH))
    hit, missed = _text(config, [-1, *firsts]), _text(config, [-1] * LENGTH, first_answer=9)
    result = measure(head, [hit, missed])
    assert result.position_count == 11 + 4
    assert result.first_step == pytest.approx(11 / 15)


def test_a_head_that_gives_no_numbers_hits_nothing() -> None:
    config = eagle3_config(draft_vocab_size=41)
    head = tiny_head(config)
    text = _text(config, [0] * LENGTH)
    broken = CanaryText(text.token_ids, text.features * torch.nan, text.greedy_ids)
    assert measure(head, [broken]) == CanaryResult(0.0, 0.0, LENGTH - 1)


def test_a_head_that_knows_its_target_passes() -> None:
    check(CanaryResult(FLOOR, FLOOR, 100))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (CanaryResult(0.02, 0.5, 100), "guessed 2%.*another target.*layer ids.*norm_before_fc"),
        (CanaryResult(0.4, 0.03, 100), "guessed 40%, but one step further only 3%.*norm_output"),
    ],
)
def test_a_useless_one_is_refused_with_likely_causes(result: CanaryResult, message: str) -> None:
    with pytest.raises(UselessHead, match=message):
        check(result)
