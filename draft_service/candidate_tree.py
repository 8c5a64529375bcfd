"""A tree of candidates that grows level by level; which nodes are sent is decided at the end.

The dynamic trees of EAGLE-2 (section 4): a level expands the likeliest nodes of the one before
(4.1), then all candidates of all levels are ranked by their cumulative score (4.2). Refuses to know
where candidates come from: `origin` is whatever the source wants to remember of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from outrider.protocol.token_tree import NO_PARENT, ROOT, TokenTree

Origin = TypeVar("Origin")


@dataclass(slots=True)
class Candidate(Generic[Origin]):
    """A node.

    Args:
        token_id: Its token.
        parent: Index of its parent; -1 for the root.
        depth: Edges to the root.
        rank: Place among its siblings, from 0.
        survival: Probability that it is accepted, its ancestors included.
        origin: What its source remembers.
    """

    token_id: int
    parent: int
    depth: int
    rank: int
    survival: float
    origin: Origin


class CandidateTree(Generic[Origin]):
    """All candidates of one round; node 0 is the root.

    Invariant: a node's index is above its parent's, and its survival is not above its parent's.

    Args:
        root_token: Token of the root.
        root_origin: What is remembered of the root.
    """

    def __init__(self, root_token: int, root_origin: Origin) -> None:
        self.nodes = [Candidate(root_token, NO_PARENT, 0, 0, 1.0, root_origin)]
        self._levels: list[list[int]] = [[ROOT]]
        self._children: dict[int, list[int]] = {}

    def add(self, parent: int, token_id: int, prob: float, origin: Origin) -> int:
        """Appends a child.

        Args:
            parent: Index of its parent.
            token_id: Its token, which no sibling has.
            prob: Probability that it is accepted, given that its parent is, 0 to 1.
            origin: What is remembered of it.

        Returns:
            Its index.
        """
        assert 0.0 <= prob <= 1.0, prob
        above = self.nodes[parent]
        siblings = self._children.setdefault(parent, [])
        depth, index = above.depth + 1, len(self.nodes)
        survival = above.survival * prob
        self.nodes.append(Candidate(token_id, parent, depth, len(siblings), survival, origin))
        siblings.append(index)
        if depth == len(self._levels):
            self._levels.append([])
        self._levels[depth].append(index)
        return index

    def level(self, depth: int) -> list[int]:
        """Nodes of one depth, in the order in which they came."""
        return self._levels[depth] if depth < len(self._levels) else []

    def children(self, node: int) -> list[int]:
        """Children of a node, in the order in which they came."""
        return self._children.get(node, [])

    def best(self, nodes: Sequence[int], count: int) -> list[int]:
        """The `count` likeliest of some nodes, best first; of equal ones those that came first.

        Applied to all nodes it keeps parents with their children, whatever `count` is: a parent is
        at least as likely as its child and came before it, so it also stands before it.
        """
        return sorted(nodes, key=lambda node: (-self.nodes[node].survival, node))[:count]

    def path(self, node: int) -> list[int]:
        """Nodes from below the root down to `node`; none for the root."""
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.nodes[node].parent
        return path[::-1]

    def token_tree(self, kept: Sequence[int]) -> TokenTree:
        """The tree of some nodes.

        Args:
            kept: Indices, the root first and each parent before its children.
        """
        place = {node: index for index, node in enumerate(kept)}
        parents = [place.get(self.nodes[node].parent, NO_PARENT) for node in kept]
        return TokenTree(tuple(self.nodes[node].token_id for node in kept), tuple(parents))
