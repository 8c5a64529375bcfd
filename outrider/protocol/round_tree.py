"""The candidates of one round and what survived of them, for whoever looks on.

Says what happened and changes nothing: by then the tokens are committed.
"""

from dataclasses import dataclass
from typing import Self

from outrider.protocol.token_tree import TokenTree
from outrider.v1 import decoding_pb2


@dataclass(frozen=True, slots=True)
class RoundTree:
    """A tree with the path that was accepted.

    Args:
        tree: All candidates.
        accepted_indices: Nodes of the surviving path without the root, top down.

    Raises:
        InvalidTree: The indices are no path down from the root.
    """

    tree: TokenTree
    accepted_indices: tuple[int, ...]

    def __post_init__(self) -> None:
        self.tree.tokens_along(self.accepted_indices)

    @property
    def accepted_token_ids(self) -> list[int]:
        """Tokens of the surviving path."""
        return self.tree.tokens_along(self.accepted_indices)

    @classmethod
    def from_proto(cls, proto: decoding_pb2.RoundTree) -> Self:
        """Reads and checks.

        Raises:
            InvalidTree: The arrays are no tree, or the indices no path down from its root.
        """
        tree = TokenTree(tuple(proto.token_ids), tuple(proto.parents))
        return cls(tree, tuple(proto.accepted_indices))

    def to_proto(self) -> decoding_pb2.RoundTree:
        """The message."""
        return decoding_pb2.RoundTree(
            token_ids=self.tree.token_ids,
            parents=self.tree.parents,
            accepted_indices=self.accepted_indices,
        )
