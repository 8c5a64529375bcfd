"""The candidate token tree: flat arrays that the draft side sends and the verify side walks.

Node 0 is the root, the last committed token, whose keys and values are not cached yet.
`parents[0] == -1`, `parents[i] < i`, and siblings carry distinct tokens. Depth, ancestors and
paths are derived here, one function each, and never sent. Knows no scores and no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

ROOT = 0
NO_PARENT = -1


class InvalidTree(ValueError):
    """Arrays that are not a token tree; the message names the node and the rule."""


@dataclass(frozen=True, slots=True)
class TokenTree:
    """One round's candidates.

    Args:
        token_ids: Token of each node, `[num_nodes]`, at least the root.
        parents: Parent of each node, `[num_nodes]`.

    Raises:
        InvalidTree: A rule of the module's first paragraph is broken.
    """

    token_ids: tuple[int, ...]
    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.token_ids:
            raise InvalidTree("a tree has at least its root")
        if len(self.token_ids) != len(self.parents):
            raise InvalidTree(
                f"{len(self.token_ids)} token_ids but {len(self.parents)} parents; one per node"
            )
        if self.parents[ROOT] != NO_PARENT:
            raise InvalidTree(f"parents[0] must be -1, got {self.parents[ROOT]}")
        seen: set[tuple[int, int]] = set()
        for node in range(1, len(self.parents)):
            parent = self.parents[node]
            if not 0 <= parent < node:
                raise InvalidTree(f"parents[{node}] must be from 0 to {node - 1}, got {parent}")
            if (parent, self.token_ids[node]) in seen:
                raise InvalidTree(f"node {node} repeats the token of a sibling")
            seen.add((parent, self.token_ids[node]))

    @classmethod
    def root_only(cls, token_id: int) -> Self:
        """The tree of plain decoding."""
        return cls((token_id,), (NO_PARENT,))

    @classmethod
    def chain(cls, token_ids: Sequence[int]) -> Self:
        """A tree with a single path."""
        return cls(tuple(token_ids), tuple(range(-1, len(token_ids) - 1)))

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def drafted_count(self) -> int:
        """Nodes without the root."""
        return len(self.token_ids) - 1

    def has_children(self, node: int) -> bool:
        """True where a candidate follows a node."""
        return node in self.parents

    def depths(self) -> list[int]:
        """Distance of each node from the root, `[num_nodes]`."""
        depths = [0] * len(self.parents)
        for node in range(1, len(depths)):
            depths[node] = depths[self.parents[node]] + 1
        return depths

    def children(self) -> list[dict[int, int]]:
        """For each node its children as `{token_id: node}`."""
        children: list[dict[int, int]] = [{} for _ in self.parents]
        for node in range(1, len(self.parents)):
            children[self.parents[node]][self.token_ids[node]] = node
        return children

    def path(self, node: int) -> list[int]:
        """Nodes from the root to `node`, both included."""
        path = [node]
        while path[-1] != ROOT:
            path.append(self.parents[path[-1]])
        return path[::-1]

    def tokens_along(self, nodes: Sequence[int]) -> list[int]:
        """Tokens of a path that begins below the root.

        Args:
            nodes: Each one a child of the one before, the first of the root.

        Raises:
            InvalidTree: One is not.
        """
        parent = ROOT
        for node in nodes:
            if not ROOT < node < len(self) or self.parents[node] != parent:
                raise InvalidTree(f"node {node} is no child of node {parent}")
            parent = node
        return [self.token_ids[node] for node in nodes]

    def truncated(self, max_depth: int) -> tuple[Self, list[int]]:
        """The tree without nodes deeper than `max_depth`.

        Returns:
            The smaller tree, and for each of its nodes the index in this one.
        """
        depths = self.depths()
        kept = [node for node, depth in enumerate(depths) if depth <= max_depth]
        if len(kept) == len(depths):
            return self, kept
        new_index = {node: index for index, node in enumerate(kept)}
        parents = tuple(new_index.get(self.parents[node], NO_PARENT) for node in kept)
        return type(self)(tuple(self.token_ids[node] for node in kept), parents), kept


def ancestor_mask(parents: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which nodes each node may attend to: its ancestors and itself.

    Args:
        parents: `[num_nodes]`; each entry is -1 or below its own index.

    Returns:
        Bool `[num_nodes, num_nodes]`, rows attend to columns.
    """
    num_nodes = len(parents)
    mask = np.eye(num_nodes, dtype=np.bool_)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node, : parent + 1] |= mask[parent, : parent + 1]
    return mask
