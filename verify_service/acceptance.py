"""Acceptance: follow the target's own tokens down the tree. The draft's probabilities play no part.

At each node reached the target's token is drawn; where a child carries it the walk goes on there,
else that token is the bonus and the round ends. For the deterministic trees that drafting builds,
this accepts exactly as often as recursive rejection sampling (EAGLE, section 3; SpecInfer, section
4.3) and the text does not depend on the tree at all.

Who asks for less than that (`validation_threshold` below 1) has a drafted child accepted, too, that
the target finds likely enough; the text then depends on what was drafted.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from outrider.protocol.token_tree import ROOT, TokenTree


class Walk(NamedTuple):
    """The surviving path without the root, and the token the target adds behind it."""

    accepted_indices: list[int]
    bonus_token: int


def walk(
    tree: TokenTree,
    target_token_at: Callable[[int], int],
    likely_at: Callable[[int, Collection[int]], int | None] | None = None,
) -> Walk:
    """Walks one tree.

    Args:
        tree: The candidates.
        target_token_at: The target's token behind a node, drawn for the position after it. Asked
            once for each node reached, top down.
        likely_at: The token to accept behind a node instead, of those that were drafted there and
            are not the target's; None where none is likely enough. Not given: lossless.

    Returns:
        The walk; `len(accepted_indices) + 1` tokens.
    """
    children = tree.children()
    accepted: list[int] = []
    node = ROOT
    while True:
        token = target_token_at(node)
        child = children[node].get(token)
        if child is None and likely_at is not None and children[node]:
            likely = likely_at(node, children[node].keys())
            child = None if likely is None else children[node][likely]
        if child is None:
            return Walk(accepted, token)
        accepted.append(child)
        node = child
