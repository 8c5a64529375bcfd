"""Growth against the rule of EAGLE-2 in plain code, with and without the session's own text."""

import random

import pytest

from draft_service.drafters.acceptance_rates import AcceptanceRates
from draft_service.drafters.calibration import Calibration
from draft_service.drafters.draft_network import Guesses, Ranking
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.growth import Growth, Sources
from draft_service.drafters.hindsight import Outcome, learn
from draft_service.drafters.ngram_text import NgramText
from draft_service.tree_shape import DynamicShape, LevelTimes, StaticShape, TreeShape
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable
from outrider.protocol.token_tree import TokenTree

FREE = CostTable((1, 64), (100_000, 100_001))
NO_TIME = LevelTimes(0.0, 0.0)
Path = tuple[int, ...]


class EagerShape(DynamicShape):
    """As EAGLE-2 has it: every level is drafted."""

    def pays(self, tree, promised, budget, times) -> bool:
        return True


def guesses_of(path: Path, seed: int = 0) -> list[tuple[int, float]]:
    """Any table: distinct tokens whose probabilities fall."""
    rng = random.Random(f"{seed} {path}")
    weights = sorted((rng.expovariate(1.0) for _ in range(6)), reverse=True)
    tokens = rng.sample(range(50), 6)
    return [(token, weight / sum(weights)) for token, weight in zip(tokens, weights, strict=True)]


def budget(**options) -> TreeBudget:
    values = {"max_nodes": 12, "max_depth": 5, "parallel_degree": 3, "cost_table": FREE, **options}
    return TreeBudget(**values)


def sources(shape: TreeShape | None = None, text: list[int] | None = None) -> Sources:
    own = None if text is None else NgramText(text, AcceptanceRates())
    return Sources("greedy", Calibration(), own, shape or EagerShape())


def answer(path: Path, width: int, seed: int = 0) -> Guesses:
    best = guesses_of(path, seed)[:width]
    return Guesses([token for token, _ in best], [prob for _, prob in best], path)


def grow(growth: Growth, width: int, seed: int = 0, times: LevelTimes = NO_TIME) -> TokenTree:
    """Drives a growth as the drafter does, the head's feedback being the path."""
    while nodes := growth.plan_level(times):
        rows = growth.rows_of(nodes, 10, 100, Ranking(Sampling(), False, width))
        assert len(rows.slots) == 10 + growth.row_count + len(nodes)
        assert all(len(above) == rows.depth - 1 for above in rows.ancestors)
        paths = [
            (*feedback, token)  # type: ignore[misc]
            for token, feedback in zip(rows.token_ids, rows.feedbacks, strict=True)
        ]
        assert all(len(path) == rows.depth for path in paths)
        growth.add_level(nodes, [answer(path, width, seed) for path in paths])
    return growth.finish(times.spent)


def paths_of(tree: TokenTree) -> set[Path]:
    return {
        tuple(tree.token_ids[node] for node in tree.path(last)[1:]) for last in range(1, len(tree))
    }


def reference_paths(seed: int, width: int, depth: int, max_nodes: int) -> set[Path]:
    """EAGLE-2, sections 4.1 and 4.2, over whole paths instead of a tree."""
    frontier: list[tuple[float, Path]] = [(1.0, ())]
    candidates: list[tuple[float, Path]] = []
    for _ in range(depth):
        level = [
            (score * prob, (*path, token))
            for score, path in frontier
            for token, prob in guesses_of(path, seed)[:width]
        ]
        candidates += level
        frontier = sorted(level, key=lambda one: -one[0])[:width]
    candidates.sort(key=lambda one: -one[0])
    return {path for _, path in candidates[: max_nodes - 1]}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("width", "depth", "nodes"), [(3, 5, 12), (4, 3, 30), (1, 4, 4), (6, 2, 9)]
)
def test_trees_are_those_of_the_rule(seed, width, depth, nodes):
    limits = budget(max_nodes=nodes, max_depth=depth, parallel_degree=width)
    growth = Growth(7, answer((), width, seed), sources(), limits)
    tree = grow(growth, width, seed)
    assert tree.token_ids[0] == 7
    assert paths_of(tree) == reference_paths(seed, width, depth, nodes)


def test_limits_are_kept():
    for limits in (budget(max_depth=0), budget(max_nodes=1)):
        growth = Growth(7, answer((), 3), sources(DynamicShape()), limits)
        assert grow(growth, 3) == TokenTree.root_only(7)
    assert growth.row_count == 0, "nothing was asked that could not be used"


def test_levels_that_cannot_pay_are_not_drafted():
    cheap_rows = budget(cost_table=CostTable((1, 16), (1000, 1100)))
    depths = []
    for micros in (0.0, 300.0, 5000.0):
        growth = Growth(7, answer((), 3), sources(DynamicShape()), cheap_rows)
        grow(growth, 3, times=LevelTimes(0.0, micros))
        depths.append(growth.row_count)
    assert depths[0] > depths[1] > depths[2] == 0


def test_without_head_and_text_there_is_the_root():
    assert grow(Growth(7, None, sources(), budget()), 3) == TokenTree.root_only(7)


def test_a_static_tree_has_the_listed_places():
    shape = StaticShape.parsed("0 1 0.0 0.1 0.0.2")
    tree = grow(Growth(7, answer((), 3), sources(shape), budget()), 3)
    first, second = (token for token, _ in guesses_of(())[:2])
    below = [token for token, _ in guesses_of((first,))]
    last = guesses_of((first, below[0]))[2][0]
    assert paths_of(tree) == {
        (first,),
        (second,),
        (first, below[0]),
        (first, below[1]),
        (first, below[0], last),
    }


def test_the_text_reaches_deeper_than_the_head_and_costs_it_nothing():
    text = [1, 2, 3, 4, 5, 6, 8, 9, 1, 2, 3]
    growth = Growth(3, answer((), 3), sources(text=text), budget(max_depth=6, max_nodes=40))
    growth.has_network = False  # it stops at once
    tree = grow(growth, 3)
    assert (4, 5, 6, 8, 9, 1) in paths_of(tree)
    assert growth.row_count == 0


def test_the_head_goes_on_below_what_the_text_proposes():
    """The text says 4 where the head does not; the head is asked what follows on it."""
    text = [1, 2, 3, 4, 5, 6, 8, 9] * 3 + [1, 2, 3]
    growth = Growth(3, Guesses([40, 41], [0.1, 0.05], ()), sources(text=text), budget())
    tree = grow(growth, 3)
    following = {token for token, _ in guesses_of((4,))[:3]}
    assert paths_of(tree) & {(4, token) for token in following}


def test_a_node_of_both_is_one_child_with_the_survival_of_both():
    head = Guesses([4, 40], [0.5, 0.3], ())
    text = [1, 2, 3, 4, 5, 6, 1, 2, 3]
    alone = Growth(3, head, sources(), budget())
    both = Growth(3, head, sources(text=text), budget())
    survival = [
        next(node.survival for node in growth.tree.nodes if node.token_id == 4)
        for growth in (alone, both)
    ]
    assert survival[0] < survival[1] < 1.0


def test_a_hybrid_chooses_from_all_that_either_part_would_propose():
    text = [1, 2, 3, 4, 5, 6, 1, 2, 9, 4, 1, 2, 3]
    limits = budget(max_nodes=1000)
    head, words, both = (
        paths_of(grow(Growth(3, guesses, sources(text=own), limits), 3))
        for guesses, own in ((answer((), 3), None), (None, text), (answer((), 3), text))
    )
    assert words
    assert both >= words
    first_level = {path for path in head if len(path) == 1}
    assert both >= first_level  # below it the frontier may prefer what the text proposes


def test_verdicts_teach_about_all_guesses_that_they_answer():
    """Guesses that were not sent count too; those below a wrong one do not."""
    limits = budget(max_nodes=1, max_depth=2)
    given = sources()
    (first, prob), (second, other) = guesses_of(())[:2]
    for _ in range(30):
        growth = Growth(7, answer((), 2), given, limits)
        grow(growth, 2)
        assert learn(growth, [], [second, 49]) == Outcome(is_hit=True, accepted=0)
    voice = growth.tree.nodes[1].origin.proposal
    assert voice is not None
    kind = ("greedy", voice.voice)
    assert given.calibration.prob(kind, 1, prob) < 0.3 * prob
    assert given.calibration.prob(kind, 1, other) > 1.5 * other
    below = guesses_of((second,))[0][1]
    assert given.calibration.prob(kind, 2, below) < below
    assert first != second


def test_accepted_nodes_are_counted_for_those_who_spoke_for_them():
    text = [1, 2, 3, 4, 5, 6, 1, 2, 3]
    growth = Growth(3, Guesses([4], [0.5], ()), sources(text=text), budget())
    growth.has_network = False
    tree = growth.finish(0.0)
    path = [1 + paths.index(4) for paths in [list(tree.token_ids[1:])]]
    path.append(tree.token_ids.index(5))
    outcome = learn(growth, path, [4, 5, 30])
    assert outcome == Outcome(is_hit=True, accepted=1)
