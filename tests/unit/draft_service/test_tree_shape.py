import pytest

from draft_service.candidate_tree import CandidateTree
from draft_service.drafters.drafter import TreeBudget
from draft_service.tree_shape import (
    MOST_CHILDREN,
    MOST_EXPANDED,
    DynamicShape,
    LevelTimes,
    StaticShape,
)
from draft_service.tree_size import best_size
from outrider.protocol.messages import CostTable

FREE = CostTable((1, 64), (1000, 1001))
RISING = CostTable((1, 2, 4, 8), (1000, 1100, 1300, 1700))


def budget(**options) -> TreeBudget:
    values = {"max_nodes": 16, "max_depth": 4, "parallel_degree": 2, "cost_table": FREE, **options}
    return TreeBudget(**values)


def tree_of(*probs: float) -> CandidateTree[None]:
    """A root with children."""
    tree: CandidateTree[None] = CandidateTree(9, None)
    for token, prob in enumerate(probs):
        tree.add(0, token, prob, None)
    return tree


def test_a_dynamic_tree_expands_its_best_nodes():
    tree = tree_of(0.1, 0.5, 0.3)
    shape = DynamicShape()
    assert shape.to_expand(tree, tree.level(1), budget()) == [2, 3]
    assert shape.width(budget()) == 2
    assert shape.width(budget(parallel_degree=64)) == MOST_CHILDREN
    many = tree_of(*[0.1 * place for place in range(1, 8)])
    assert shape.to_expand(many, many.level(1), budget(parallel_degree=64)) == [7, 6, 5, 4]
    for degree, breadth in ((1, 1), (3, 3), (64, MOST_EXPANDED)):
        assert shape.breadth(budget(parallel_degree=degree)) == breadth
        expanded = shape.to_expand(many, many.level(1), budget(parallel_degree=degree))
        assert len(expanded) == breadth


def test_a_dynamic_tree_keeps_what_pays():
    tree = tree_of(0.1, 0.5, 0.3)
    assert DynamicShape().kept(tree, budget(), 0.0) == [0, 2, 3, 1]
    assert DynamicShape().kept(tree, budget(max_nodes=3), 0.0) == [0, 2, 3]
    assert DynamicShape().kept(tree, budget(cost_table=RISING), 0.0) == [0, 2, 3]


def test_a_level_pays_by_what_it_promises_and_what_it_takes():
    tree = tree_of(0.8)
    pays = DynamicShape().pays
    assert pays(tree, [0.6], budget(cost_table=RISING), LevelTimes(0.0, 50.0))
    assert not pays(tree, [0.6], budget(cost_table=RISING), LevelTimes(0.0, 900.0))
    assert not pays(tree, [0.01], budget(cost_table=RISING), LevelTimes(0.0, 50.0))
    assert not pays(tree, [0.6], budget(max_nodes=1), LevelTimes(0.0, 1.0))


def test_time_already_spent_makes_further_nodes_cheaper():
    """A tree is chosen for the whole round: where drafting took long, more rows are worth it."""
    survival = [0.3, 0.1]
    assert best_size(survival, RISING).node_count == 1
    assert best_size(survival, RISING, draft_micros=2000.0).node_count == 2


def test_a_static_tree_is_the_listed_paths():
    shape = StaticShape.parsed("1 0 0.1 0.0.0 0.0")
    tree = tree_of(0.1, 0.5, 0.3)
    assert shape.width(budget()) == 2
    assert shape.to_expand(tree, tree.level(1), budget()) == [1]
    assert shape.breadth(budget()) == 1
    assert StaticShape.parsed("0 1 0.0 1.0").breadth(budget()) == 2
    for token in (5, 6):
        tree.add(1, token, 0.5, None)
    tree.add(4, 8, 0.5, None)
    assert shape.to_expand(tree, tree.level(2), budget()) == [4]
    assert shape.kept(tree, budget(), 0.0) == [0, 1, 2, 4, 5, 6]
    assert shape.kept(tree, budget(max_nodes=4), 0.0) == [0, 1, 2, 4]
    assert shape.pays(tree, [], budget(), LevelTimes(0.0, 1e9))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 0", "twice"),
        ("0.0", "needs 0"),
        ("0 -1", "places from 0"),
        ("0 x", "invalid literal"),
    ],
)
def test_paths_that_are_no_tree_are_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        StaticShape.parsed(text)
