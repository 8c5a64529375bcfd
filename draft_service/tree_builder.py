"""Best-first growth of a candidate tree: the nodes most likely to be accepted, wherever they are.

This is the second half of EAGLE-2's dynamic trees (section 4.2: rerank all candidates by their
cumulative score), for any source of children.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from outrider.protocol.token_tree import NO_PARENT, TokenTree

State = TypeVar("State")


class Child(NamedTuple, Generic[State]):
    """A candidate below a node.

    Args:
        token_id: Its token.
        prob: Probability that it is accepted, given that its parent is.
        state: Whatever the source needs to go on below it.
    """

    token_id: int
    prob: float
    state: State


@dataclass(slots=True)
class GrownTree(Generic[State]):
    """A tree with what is known of each node; entry 0 is the root.

    Args:
        token_ids: `[num_nodes]`.
        parents: `[num_nodes]`.
        survival_probs: Probability that the node is accepted, `[num_nodes]`, falling.
        states: `[num_nodes]`.
    """

    token_ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    survival_probs: list[float] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def add(self, parent: int, token_id: int, survival: float, state: State) -> int:
        """Appends a node and returns its index."""
        self.token_ids.append(token_id)
        self.parents.append(parent)
        self.survival_probs.append(survival)
        self.states.append(state)
        return len(self.token_ids) - 1

    def first(self, node_count: int) -> TokenTree:
        """The tree of the first nodes; growth order keeps parents before children."""
        return TokenTree(tuple(self.token_ids[:node_count]), tuple(self.parents[:node_count]))


def grow_tree(
    root_token: int,
    root_state: State,
    children_of: Callable[[State], list[Child[State]]],
    max_nodes: int,
    max_depth: int,
) -> GrownTree[State]:
    """Grows a tree node by node, always the most likely one next.

    Args:
        root_token: Token of the root.
        root_state: State of the root.
        children_of: Candidates below a state, with distinct tokens.
        max_nodes: Most nodes, the root included, at least 1.
        max_depth: Most drafted tokens on one path.

    Returns:
        A tree whose nodes are in falling order of survival.
    """
    tree: GrownTree[State] = GrownTree()
    # The counter breaks ties in order of discovery and keeps states from being compared.
    heap: list[tuple[float, int, int, int, Child[State]]] = []
    discovered = 0

    def discover(node: int, depth: int) -> None:
        nonlocal discovered
        if depth > max_depth:
            return
        for child in children_of(tree.states[node]):
            survival = tree.survival_probs[node] * child.prob
            heapq.heappush(heap, (-survival, discovered, node, depth, child))
            discovered += 1

    discover(tree.add(NO_PARENT, root_token, 1.0, root_state), 1)
    while heap and len(tree.token_ids) < max_nodes:
        negative_survival, _, parent, depth, child = heapq.heappop(heap)
        node = tree.add(parent, child.token_id, -negative_survival, child.state)
        discover(node, depth + 1)
    return tree
