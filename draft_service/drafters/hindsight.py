"""What a verdict says about the guesses of a round."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from draft_service.drafters.growth import Growth
from outrider.protocol.token_tree import ROOT


class Outcome(NamedTuple):
    """What became of the network's part of a tree.

    Args:
        is_hit: One of its guesses for the first token was right.
        accepted: Accepted nodes for which it spoke.
    """

    is_hit: bool
    accepted: int


def learn(growth: Growth, accepted_indices: Sequence[int], token_ids: Sequence[int]) -> Outcome:
    """Teaches a tree's sources which of its guesses were right.

    Guesses that were not sent count as well, where the tokens answer them, so that a source that
    was given up finds out when it would pay again.

    Args:
        growth: A finished tree.
        accepted_indices: Nodes of the token tree that survived, without the root.
        token_ids: All newly committed tokens, at least one.
    """
    tree, sources = growth.tree, growth.sources
    for node, token_id in _reached(growth, token_ids):
        for child in tree.children(node):
            candidate = tree.nodes[child]
            if candidate.origin.proposal is not None:
                is_right = candidate.token_id == token_id
                sources.note(candidate.origin.proposal, candidate.depth, is_right)
        continuations = tree.nodes[node].origin.continuations
        if sources.text is not None and continuations:
            sources.text.learn(continuations, token_id)
    guesses = tree.nodes[ROOT].origin.guesses
    accepted = [tree.nodes[growth.kept[index]] for index in accepted_indices]
    return Outcome(
        is_hit=guesses is not None and token_ids[0] in guesses.token_ids,
        accepted=sum(candidate.origin.has_network for candidate in accepted),
    )


def _reached(growth: Growth, token_ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Candidates on which the target stood, each with the token that it took there."""
    tree, node = growth.tree, ROOT
    for token_id in token_ids:
        yield node, token_id
        right = [child for child in tree.children(node) if tree.nodes[child].token_id == token_id]
        if not right:
            return
        node = right[0]
