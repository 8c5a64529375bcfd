from hypothesis import given
from hypothesis import strategies as st

from verify_service.scheduler import Demand, Share, plan_shares


def test_trees_come_before_prefill_and_prefill_fills_the_rest():
    demands = [Demand(100, 0), Demand(0, 4), Demand(0, 6)]
    assert plan_shares(demands, 16) == [Share(1, 0, True), Share(2, 0, True), Share(0, 6, False)]


def test_the_last_chunk_takes_its_tree_along():
    assert plan_shares([Demand(5, 3)], 16) == [Share(0, 5, True)]
    assert plan_shares([Demand(5, 3)], 7) == [Share(0, 5, False)]


def test_a_tree_larger_than_the_budget_still_runs():
    assert plan_shares([Demand(0, 9), Demand(0, 1)], 4) == [Share(0, 0, True)]


def test_nothing_to_do():
    assert plan_shares([], 4) == []
    assert plan_shares([Demand(0, 0)], 4) == []


@given(
    st.lists(st.builds(Demand, st.integers(0, 50), st.integers(0, 12)), max_size=8),
    st.integers(1, 40),
)
def test_within_budget_and_always_something(demands, budget):
    shares = plan_shares(demands, budget)
    rows = [
        share.prefill_rows + (demands[share.index].tree_rows if share.with_tree else 0)
        for share in shares
    ]
    assert sum(rows) <= budget or len(shares) == 1
    assert len({share.index for share in shares}) == len(shares)
    assert all(count > 0 for count in rows)
    has_work = any(demand.prefill_rows or demand.tree_rows for demand in demands)
    assert bool(shares) == has_work
    for share in shares:
        demand = demands[share.index]
        assert share.prefill_rows <= demand.prefill_rows
        if share.with_tree:
            assert share.prefill_rows == demand.prefill_rows, "a tree needs its whole prefix"
