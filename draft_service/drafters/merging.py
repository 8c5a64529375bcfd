"""One list of children of a node, from what a draft network and the session's own text say."""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from draft_service.drafters.draft_network import Guesses
from draft_service.drafters.ngram_text import Continuation


class Voice(Enum):
    """Who speaks for a child, and beside whom; each kind of agreement is calibrated for itself."""

    NETWORK = auto()  # the network; the text has nothing to say
    BOTH = auto()
    NETWORK_BESIDE = auto()  # the network; the text proposes something else
    TEXT = auto()  # the text; the network was not asked
    TEXT_BESIDE = auto()  # the text; the network proposes something else

    @property
    def has_network(self) -> bool:
        """True where the network proposes the child."""
        return self in (Voice.NETWORK, Voice.BOTH, Voice.NETWORK_BESIDE)


class Proposal(NamedTuple):
    """A child before calibration.

    Args:
        token_id: Its token.
        raw: Combined probability, 0 to 1.
        voice: Who speaks for it.
        continuation: What the text says; None where it does not propose the child.
    """

    token_id: int
    raw: float
    voice: Voice
    continuation: Continuation | None


def merge(
    guesses: Guesses | None,
    continuations: Sequence[Continuation],
    network_prob: Callable[[float], float],
) -> list[Proposal]:
    """Merges the two lists; a token that is in both becomes one child.

    Two probabilities for one token are combined as if they were independent chances to be right.
    Where the two disagree, each half believes the other. Calibration corrects what is wrong with
    that.

    Args:
        guesses: The network's; None where it was not asked.
        continuations: The text's.
        network_prob: Calibrates one of the network's probabilities.

    Returns:
        Children with distinct tokens: the network's first, in its order.
    """
    said = {one.token_id: one for one in continuations}
    if guesses is None:
        return [Proposal(one.token_id, one.prob, Voice.TEXT, one) for one in said.values()]
    beside_text = 1.0 - 0.5 * sum(one.prob for one in said.values())
    beside_network = 1.0 - 0.5 * sum(guesses.probs)
    proposals: dict[int, Proposal] = {}
    for token_id, raw in zip(guesses.token_ids, guesses.probs, strict=True):
        one = said.get(token_id)
        if one is not None:
            together = 1.0 - (1.0 - network_prob(raw)) * (1.0 - one.prob)
            proposal = Proposal(token_id, together, Voice.BOTH, one)
        elif said:
            proposal = Proposal(token_id, raw * beside_text, Voice.NETWORK_BESIDE, None)
        else:
            proposal = Proposal(token_id, raw, Voice.NETWORK, None)
        proposals.setdefault(token_id, proposal)  # a head whose map repeats a token says it once
    for one in said.values():
        proposal = Proposal(one.token_id, one.prob * beside_network, Voice.TEXT_BESIDE, one)
        proposals.setdefault(one.token_id, proposal)
    return list(proposals.values())
