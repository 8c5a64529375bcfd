from hypothesis import given
from hypothesis import strategies as st

from draft_service.company import Company
from draft_service.tree_builder import Child, grow_tree
from draft_service.tree_size import best_node_count
from outrider.protocol.messages import CostTable

# token -> (child token, probability given the parent)
CHILDREN = {0: [(1, 0.6), (2, 0.3)], 1: [(3, 0.9), (4, 0.1)], 2: [(5, 0.5)], 3: [(6, 0.1)]}


def children_of(token: int) -> list[Child[int]]:
    return [Child(child, prob, child) for child, prob in CHILDREN.get(token, [])]


def test_the_likeliest_node_is_always_next():
    tree = grow_tree(0, 0, children_of, max_nodes=10, max_depth=9)
    assert tree.token_ids == [0, 1, 3, 2, 5, 4, 6]
    assert tree.parents == [-1, 0, 1, 0, 3, 1, 2]
    assert tree.survival_probs[1:4] == [0.6, 0.54, 0.3]


def test_limits_of_nodes_and_depth():
    assert grow_tree(0, 0, children_of, 3, 9).token_ids == [0, 1, 3]
    assert grow_tree(0, 0, children_of, 10, 1).token_ids == [0, 1, 2]
    assert grow_tree(0, 0, children_of, 1, 9).token_ids == [0]
    assert grow_tree(0, 0, children_of, 10, 0).token_ids == [0]


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(0, 5))
def test_any_prefix_is_a_tree_and_survival_falls(seed, max_nodes, max_depth):
    def anything(state: int) -> list[Child[int]]:
        return [
            Child(token, 1 / (2 + (state * 7 + token * 3 + seed) % 5), state * 4 + token)
            for token in range(3)
        ]

    tree = grow_tree(9, seed, anything, max_nodes, max_depth)
    assert tree.survival_probs == sorted(tree.survival_probs, reverse=True)
    for count in range(1, len(tree.token_ids) + 1):
        small = tree.first(count)
        assert len(small) == count
        assert max(small.depths()) <= max_depth


FLAT = CostTable((1, 64), (1000, 1000))
STEEP = CostTable((1, 2), (1000, 2000))


def test_free_rows_are_all_taken_and_dear_ones_are_not():
    assert best_node_count([0.9, 0.5, 0.1], FLAT) == 3
    assert best_node_count([0.9, 0.5, 0.1], STEEP) == 0
    assert best_node_count([], FLAT) == 0


def test_the_size_maximises_tokens_per_time():
    table = CostTable((1, 2, 3, 4), (100, 110, 130, 180))
    speeds = [1 / 100, 1.8 / 113, 2.3 / 139, 2.5 / 204]
    assert best_node_count([0.8, 0.5, 0.2], table) == speeds.index(max(speeds)) == 2


def test_company_makes_trees_smaller():
    table = CostTable((1, 8, 64), (100, 130, 1000))
    alone = best_node_count([0.5] * 6, table)
    crowded = best_node_count([0.5] * 6, table, Company(20, 20.0))
    assert crowded < alone


@given(st.lists(st.floats(0, 1), max_size=20), st.integers(0, 40))
def test_never_slower_than_plain_by_its_own_reckoning(probs, others):
    table = CostTable((1, 4, 16, 64), (100, 120, 200, 900))
    probs.sort(reverse=True)
    count = best_node_count(probs, table, Company(others, others))
    plain = (1 + others) / table.micros_at(1 + others)
    chosen = (1 + others + sum(probs[:count])) / table.micros_at(1 + others + count)
    assert chosen >= plain
