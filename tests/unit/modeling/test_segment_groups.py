"""Sessions that attend together: who does, and that nobody's numbers change."""

from itertools import pairwise

import pytest
import torch

from outrider.modeling.kv_pool import KvPool, LayerShape
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from outrider.modeling.ragged_segment import RaggedSegment
from outrider.modeling.segment_attention import ScoreRule, attend_segments
from outrider.modeling.segment_groups import (
    LEAST_FILLED,
    MOST_CONTEXT,
    MOST_ROWS,
    SegmentGroup,
    group_segments,
)

HEADS, KV_HEADS, DIM, SLOTS = 4, 2, 8, 4096
RULES = {
    "plain": ScoreRule(0.3),
    "window": ScoreRule(0.3, window=9),
    "softcap": ScoreRule(0.3, softcap=2.0),
    "sinks": ScoreRule(0.3, sinks=torch.randn(HEADS, generator=torch.Generator().manual_seed(5))),
}


def segments_of(*sizes: tuple[int, int]) -> list[RaggedSegment]:
    """Segments of so many new rows behind so many cached ones."""
    start, made = 0, []
    for num_rows, cached in sizes:
        made.append(RaggedSegment(start, start + num_rows, cached, range(cached + num_rows), None))
        start += num_rows
    return made


def sizes_of(groups: list[SegmentGroup]) -> list[list[tuple[int, int]]]:
    return [[(one.num_rows, one.cached_rows) for one in group.segments] for group in groups]


def test_equally_many_rows_behind_contexts_of_similar_length_go_together():
    found = group_segments(segments_of((1, 99), (3, 99), (1, 80), (3, 97), (1, 20), (1, 84)))
    assert sizes_of(found) == [[(1, 20)], [(1, 99), (1, 80), (1, 84)], [(3, 99), (3, 97)]]


def test_padding_is_bounded():
    sizes = [(1, cached) for cached in range(1, 900, 7)]
    for group in group_segments(segments_of(*sizes)):
        shortest = min(segment.context for segment in group.segments)
        assert shortest >= LEAST_FILLED * group.context


def test_long_pieces_and_long_contexts_stay_alone():
    rows, context = MOST_ROWS + 1, MOST_CONTEXT + 1
    found = group_segments(segments_of((rows, 0), (rows, 0), (1, context), (1, context)))
    assert [len(group.segments) for group in found] == [1, 1, 1, 1]


def test_every_row_is_in_one_group():
    groups = group_segments(segments_of((2, 5), (1, 9), (2, 6), (40, 0), (1, 9), (2, 90)))
    seen = torch.zeros(48, dtype=torch.int64)
    for group in groups:
        seen[group.rows.on(torch.device("cpu"))] += 1
    assert seen.tolist() == [1] * 48


def random_shares(seed: int, scattered: bool) -> list[SegmentRows]:
    """Twelve sessions: trees, single rows and a chain, on slots of their own."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    shares = []
    for session in range(12):
        cached, num_rows = draw(10, 40), (1, 1, 3, 5)[session % 4]
        first, step = 200 * session, 2 if scattered and session % 3 else 1
        slots = range(first, first + step * (cached + num_rows), step)
        parents = [-1, *(draw(0, row) for row in range(1, num_rows))]
        where = slots if step == 1 else list(slots)
        shares.append(SegmentRows([0] * num_rows, parents, cached, where, 0))
    shares.append(SegmentRows([0] * 6, range(-1, 5), 0, range(2400, 2406), 0))
    return shares


def filled_pool(seed: int) -> KvPool:
    layer = LayerShape(KV_HEADS, DIM, DIM, torch.float32, torch.device("cpu"))
    pool = KvPool([layer, layer], SLOTS)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(2, KV_HEADS, SLOTS, DIM, generator=generator)
    pool.write(1, slice(0, SLOTS), rows[0], rows[1])
    return pool


def attend(pool: KvPool, shares: list[SegmentRows], rule: ScoreRule, inputs: torch.Tensor):
    batch = build_ragged_batch(shares)
    return attend_segments(
        1,
        inputs[0].unflatten(-1, (HEADS, DIM)),
        *(one[..., : KV_HEADS * DIM].unflatten(-1, (KV_HEADS, DIM)) for one in inputs[1:]),
        kv_pool=pool,
        write_slots=batch.write_slots,
        groups=batch.groups,
        rule=rule,
    )


def draw_inputs(shares: list[SegmentRows], seed: int) -> torch.Tensor:
    num_rows = sum(len(share.token_ids) for share in shares)
    return torch.randn(3, num_rows, HEADS * DIM, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("scattered", [False, True])
def test_together_is_as_alone(rule, scattered):
    shares = random_shares(1, scattered)
    inputs = draw_inputs(shares, 2)
    assert len(build_ragged_batch(shares).groups) < len(shares) - 4
    together = attend(filled_pool(3), shares, RULES[rule], inputs)
    pool, row = filled_pool(3), 0
    for share in shares:
        stop = row + len(share.token_ids)
        alone = attend(pool, [share], RULES[rule], inputs[:, row:stop])
        torch.testing.assert_close(together[row:stop], alone, atol=1e-5, rtol=1e-5)
        row = stop


@pytest.mark.parametrize("rule", list(RULES))
def test_numbers_that_are_none_stay_with_their_session(rule):
    """Padding stands in for rows, and must never be another session's."""
    shares = random_shares(4, scattered=False)
    inputs, ill = draw_inputs(shares, 5), 2
    expected = attend(filled_pool(6), shares, RULES[rule], inputs)
    pool = filled_pool(6)
    first = shares[ill].slots[0]
    pool.write(1, slice(first, first + 5), *torch.full((2, KV_HEADS, 5, DIM), torch.nan))
    found = attend(pool, shares, RULES[rule], inputs)
    begins = [0]
    for share in shares:
        begins.append(begins[-1] + len(share.token_ids))
    for session, (begin, end) in enumerate(pairwise(begins)):
        if session != ill:
            assert torch.equal(found[begin:end], expected[begin:end])
