"""Which candidates are expanded and which are sent: by their scores, or by a list of paths."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from draft_service.candidate_tree import CandidateTree
from draft_service.drafters.drafter import TreeBudget
from draft_service.tree_size import TreeSize, best_size
from outrider.protocol.token_tree import ROOT

# Whatever a request asks for. Many children, few of them expanded: over recorded answers 16 and 4
# are as good as 16 and 16 (2.27 and 2.29 tokens per round at 24 nodes) and better than 4 and 4
# (2.13), and a pass of the head over 4 rows costs hardly more than over one.
MOST_CHILDREN = 16
MOST_EXPANDED = 4

Tree = CandidateTree[Any]


class LevelTimes(NamedTuple):
    """Time of drafting, microseconds.

    Args:
        spent: By this round so far.
        level: By one more level: this session's share of it.
    """

    spent: float
    level: float


class TreeShape(Protocol):
    """A rule for the shape of trees."""

    def width(self, budget: TreeBudget) -> int:
        """Children wanted of each expanded node."""

    def breadth(self, budget: TreeBudget) -> int:
        """Most nodes of one level that are expanded."""

    def to_expand(self, tree: Tree, nodes: Sequence[int], budget: TreeBudget) -> list[int]:
        """Those of some nodes of one depth whose children are wanted."""

    def pays(
        self, tree: Tree, promised: Sequence[float], budget: TreeBudget, times: LevelTimes
    ) -> bool:
        """True where one more level is worth its time.

        Args:
            tree: All candidates so far.
            promised: Survival that one more level may be expected to bring, one child a node.
            budget: Largest size, and what rows cost.
            times: Of drafting.
        """

    def kept(self, tree: Tree, budget: TreeBudget, draft_micros: float) -> list[int]:
        """Nodes to send, the root first and parents before children."""


class DynamicShape:
    """The likeliest nodes, wherever they are, as many as pay."""

    def width(self, budget: TreeBudget) -> int:
        """As `TreeShape.width`."""
        return min(budget.parallel_degree, MOST_CHILDREN)

    def breadth(self, budget: TreeBudget) -> int:
        """As `TreeShape.breadth`."""
        return min(budget.parallel_degree, MOST_EXPANDED)

    def to_expand(self, tree: Tree, nodes: Sequence[int], budget: TreeBudget) -> list[int]:
        """As `TreeShape.to_expand`."""
        return tree.best(nodes, self.breadth(budget))

    def pays(
        self, tree: Tree, promised: Sequence[float], budget: TreeBudget, times: LevelTimes
    ) -> bool:
        """As `TreeShape.pays`: compares the best sizes with and without what is promised."""
        found = [node.survival for node in tree.nodes[1:]]
        now = _size(found, budget, times.spent)
        then = _size([*found, *promised], budget, times.spent + times.level)
        return then.speed > now.speed

    def kept(self, tree: Tree, budget: TreeBudget, draft_micros: float) -> list[int]:
        """As `TreeShape.kept`."""
        ranked = tree.best(range(len(tree.nodes)), budget.max_nodes)
        survival = [tree.nodes[node].survival for node in ranked[1:]]
        return ranked[: 1 + _size(survival, budget, draft_micros).node_count]


class StaticShape:
    """A fixed list of paths, each a place among siblings per level; EAGLE-1's trees (section 4).

    Costs and parallel degree are not asked; most nodes and depth are kept.

    Args:
        paths: Such as `(0,)`, `(1,)`, `(0, 0)`; each without its last place is listed too.

    Raises:
        ValueError: A path is empty, is listed twice, has a negative place or lacks its parent.
    """

    def __init__(self, paths: Sequence[tuple[int, ...]]) -> None:
        self._order = {path: index for index, path in enumerate(sorted(paths, key=_by_depth))}
        self._inner = {path[:-1] for path in paths}
        if len(self._order) < len(paths):
            raise ValueError("a path is listed twice")
        for path in paths:
            if not path or min(path) < 0:
                raise ValueError(f"{written(path)!r} is no path of places from 0")
            if path[:-1] and path[:-1] not in self._order:
                raise ValueError(f"{written(path)} needs {written(path[:-1])}")

    @classmethod
    def parsed(cls, text: str) -> "StaticShape":
        """Reads paths such as `0 1 0.0 0.1 0.0.0`.

        Raises:
            ValueError: As for the class, or a place is no number.
        """
        return cls([tuple(int(place) for place in path.split(".")) for path in text.split()])

    def width(self, budget: TreeBudget) -> int:
        """As `TreeShape.width`."""
        return 1 + max((path[-1] for path in self._order), default=0)

    def breadth(self, budget: TreeBudget) -> int:
        """As `TreeShape.breadth`."""
        return max(Counter(len(path) for path in self._inner).values(), default=0)

    def to_expand(self, tree: Tree, nodes: Sequence[int], budget: TreeBudget) -> list[int]:
        """As `TreeShape.to_expand`."""
        return [node for node in nodes if _places(tree, node) in self._inner]

    def pays(
        self, tree: Tree, promised: Sequence[float], budget: TreeBudget, times: LevelTimes
    ) -> bool:
        """As `TreeShape.pays`: the list decides."""
        return True

    def kept(self, tree: Tree, budget: TreeBudget, draft_micros: float) -> list[int]:
        """As `TreeShape.kept`: the listed nodes, shallow ones first."""
        order = {node: self._order.get(_places(tree, node)) for node in range(1, len(tree.nodes))}
        listed = [node for node, place in order.items() if place is not None]
        listed.sort(key=lambda node: order[node] or 0)
        return [ROOT, *listed][: budget.max_nodes]


def written(path: tuple[int, ...]) -> str:
    """A path as it stands in a setting."""
    return ".".join(map(str, path))


def _size(survival: Sequence[float], budget: TreeBudget, draft_micros: float) -> TreeSize:
    falling = sorted(survival, reverse=True)[: budget.max_nodes - 1]
    return best_size(falling, budget.cost_table, budget.company, draft_micros)


def _places(tree: Tree, node: int) -> tuple[int, ...]:
    return tuple(tree.nodes[step].rank for step in tree.path(node))


def _by_depth(path: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return len(path), path
