import math

import pytest
import torch

from draft_service.drafters.draft_network import Ranking
from draft_service.tensors.guess_ranking import MOST_LIKELY, RankedRow, rank
from outrider.modeling.token_choice import sampled_token
from outrider.protocol.decoding import Sampling

GREEDY = Ranking(Sampling(), False, 3)


def sampled(is_coupled: bool, width: int = 3, **options) -> Ranking:
    return Ranking(Sampling(temperature=1.0, seed=7, **options), is_coupled, width)


def ranked(logits: list[float], ranking: Ranking, target_ids=None, position: int = 5) -> RankedRow:
    ids = None if target_ids is None else torch.tensor(target_ids)
    (row,) = rank(torch.tensor([logits]), ids, [ranking], [position])
    return row


def test_greedy_guesses_are_the_likeliest_tokens_of_the_target_vocabulary():
    row = ranked([0.0, 2.0, 1.0, -3.0], GREEDY, target_ids=[10, 20, 30, 40])
    assert row.token_ids == [20, 30, 10]
    softmax = torch.tensor([0.0, 2.0, 1.0, -3.0]).softmax(dim=0)
    assert row.probs == pytest.approx([float(softmax[place]) for place in (1, 2, 0)])


def test_uncoupled_guesses_follow_temperature_and_filters():
    logits = [0.0, 2.0, 1.0, -3.0]
    row = ranked(logits, sampled(False, top_k=2))
    assert row.token_ids == [1, 2]
    assert sum(row.probs) == pytest.approx(1.0)
    assert ranked(logits, sampled(False, min_p=0.9)).token_ids == [1]
    cold = Ranking(Sampling(temperature=0.1, seed=7), False, 3)
    assert ranked(logits, cold).probs[0] > 0.99


@pytest.mark.parametrize("options", [{}, {"top_p": 0.8}, {"top_k": 3}, {"min_p": 0.1}])
def test_a_head_that_equals_the_target_knows_every_draw(options):
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(40, 30, generator=generator) * 2
    ranking = sampled(True, **options)
    rows = rank(logits, None, [ranking] * 40, list(range(100, 140)))
    for position, (row, row_logits) in enumerate(zip(rows, logits, strict=True), start=100):
        assert row.token_ids[0] == sampled_token(row_logits, ranking.sampling, position)


def test_noise_is_that_of_target_ids_and_positions():
    """A draft vocabulary in another order, of fewer tokens, ranks as the target's tokens do."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(30, generator=generator)
    kept = torch.tensor([3, 4, 8, 9, 15, 22, 28])
    ranking, alone = sampled(True), torch.full((30,), -1e9)
    alone[kept] = logits[kept]
    (row,) = rank(logits[kept][None], kept, [ranking], [11])
    assert row.token_ids[0] == sampled_token(alone, ranking.sampling, 11)
    others = [rank(logits[kept][None], kept, [ranking], [p])[0].token_ids for p in range(20)]
    assert len({tuple(ids) for ids in others}) > 1


def hit_rate(is_coupled: bool, width: int, noise: float = 0.7) -> float:
    """How often the target's draw is among the guesses of a head that resembles the target."""
    generator, hits = torch.Generator().manual_seed(3), 0
    target = torch.randn(400, 50, generator=generator) * 2
    head = target + noise * torch.randn(400, 50, generator=generator)
    ranking = sampled(is_coupled, width)
    rows = rank(head, None, [ranking] * 400, list(range(400)))
    for position, (row, logits) in enumerate(zip(rows, target, strict=True)):
        hits += sampled_token(logits, ranking.sampling, position) in row.token_ids
    return hits / 400


@pytest.mark.parametrize("width", [1, 3])
def test_coupled_guesses_beat_uncoupled_ones_at_temperature_1(width):
    """400 draws: the standard error of either rate is at most 0.025."""
    assert hit_rate(True, width) > hit_rate(False, width) + 0.15


def test_rows_of_many_kinds_share_a_pass():
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(4))
    rankings = [GREEDY, sampled(True, 5), sampled(False, 2)]
    together = rank(logits, None, rankings, [1, 2, 3])
    alone = [
        rank(logits[row][None], None, [ranking], [row + 1])[0]
        for row, ranking in enumerate(rankings)
    ]
    assert together == alone
    assert [len(row.token_ids) for row in together] == [3, 5, 2]


def test_more_guesses_than_tokens_are_not_made_up():
    assert len(ranked([0.0, 1.0], GREEDY).token_ids) == 2
    assert len(ranked([0.0] * (MOST_LIKELY + 8), sampled(True, 4)).token_ids) == 4


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("ranking", [GREEDY, sampled(True), sampled(False)])
def test_logits_that_are_no_numbers_give_probabilities_that_are_none(bad, ranking):
    assert not all(map(math.isfinite, ranked([0.0, bad, 1.0], ranking).probs))
