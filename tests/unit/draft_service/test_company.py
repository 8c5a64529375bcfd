"""What other sessions of a pass mean for a tree's size."""

import pytest

from draft_service.company import ALONE, RIGHT_SHARE, WEIGHT, Company, seen_in
from draft_service.tree_size import best_node_count
from outrider.protocol.messages import CostTable, Verdict

TABLE = CostTable((1, 16, 32), (1000, 2500, 4100))


def verdict(nodes: int, trees: int, micros: int, prefill: int = 0) -> Verdict:
    return Verdict(
        bytes(16), 0, 1, (), 7,
        verify_us=micros, batch_rows=nodes + prefill, batch_trees=trees, batch_nodes=nodes,
    )  # fmt: skip


def test_a_lone_tree_has_no_company_however_long_its_pass_took():
    assert seen_in(verdict(5, 1, 90_000), 5, TABLE, Company(3, 3.0, 500.0)) == ALONE
    assert seen_in(verdict(0, 0, 90_000), 5, TABLE, ALONE) == ALONE, "a worker that does not say"


def test_others_count_by_their_trees_and_nodes():
    company = seen_in(verdict(16, 4, 4500), 6, TABLE, ALONE)
    assert company == Company(rows=10, tokens=3 + 7 * RIGHT_SHARE, extra_micros=2000.0)


def test_what_a_pass_takes_beyond_the_table_is_a_running_mean():
    first = seen_in(verdict(16, 8, 4500), 2, TABLE, ALONE)
    second = seen_in(verdict(16, 8, 6500), 2, TABLE, first)
    assert second.extra_micros == pytest.approx(2000 + WEIGHT * 2000)
    fast = seen_in(verdict(16, 8, 100), 2, TABLE, ALONE)
    assert fast.extra_micros == 0.0


def test_a_pass_with_prefill_says_nothing_of_the_time_of_trees():
    before = seen_in(verdict(16, 8, 4500), 2, TABLE, ALONE)
    with_prefill = seen_in(verdict(16, 8, 300_000, prefill=256), 2, TABLE, before)
    assert with_prefill == before._replace(has_prefill=True)
    own = seen_in(verdict(1, 1, 300_000, prefill=256), 1, TABLE, ALONE)
    assert own == Company(has_prefill=True)


def test_a_row_is_worth_more_where_the_pass_takes_longer_anyway():
    probs = [0.6, 0.5, 0.4, 0.3]
    crowd = Company(rows=15, tokens=15.0)
    sizes = [
        best_node_count(probs, TABLE, crowd._replace(extra_micros=extra))
        for extra in (0.0, 1500.0, 3000.0, 30_000.0)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] == len(probs)
