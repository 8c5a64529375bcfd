"""Every conversation once an epoch, the same for every rank, and as even as they come."""

from itertools import chain

import pytest

from outrider.training.batches import pack, plan_epoch, share_out

LENGTHS = [7, 3, 9, 1, 12, 4, 4, 8, 2, 5]


def test_an_epoch_has_everything_once_and_keeps_the_limit():
    batches = plan_epoch(LENGTHS, 12, seed=0, epoch=0)
    assert sorted(chain(*batches)) == list(range(10))
    assert all(sum(LENGTHS[i] for i in batch) <= 12 for batch in batches)
    assert plan_epoch(LENGTHS, 12, 0, 0) == batches
    assert plan_epoch(LENGTHS, 12, 0, 1) != batches
    assert plan_epoch(LENGTHS, 12, 1, 0) != batches


def test_one_that_is_too_long_stands_alone():
    assert pack(range(4), [5, 30, 5, 5], 10) == [[0], [1], [2, 3]]


@pytest.mark.parametrize("ranks", [1, 2, 3, 12])
@pytest.mark.parametrize("micro_tokens", [10, 1000])
def test_shares_cover_a_batch_with_as_many_passes_on_each_rank(ranks, micro_tokens):
    batch = [9, 4, 2, 0, 7]
    shares = share_out(batch, LENGTHS, ranks, micro_tokens)
    assert len(shares) == ranks
    assert len({len(passes) for passes in shares}) == 1
    assert sorted(index for passes in shares for one in passes for index in one) == sorted(batch)
    for passes in shares:
        for one in passes:
            assert len(one) <= 1 or sum(LENGTHS[i] for i in one) <= micro_tokens


def test_shares_are_even():
    [first, second] = share_out(range(10), LENGTHS, 2, 1000)
    loads = [sum(LENGTHS[i] for i in chain(*passes)) for passes in (first, second)]
    assert abs(loads[0] - loads[1]) <= 1
