"""One session's own text as a source of children: what followed, earlier, on the tokens before.

A branch is the set of earlier places that agree on the path so far. Its guesses come with the
probability that verdicts have taught for such evidence, so they need no calibration.
"""

from collections.abc import Sequence
from typing import NamedTuple

from draft_service.drafters.acceptance_rates import AcceptanceRates, Evidence
from draft_service.drafters.suffix_index import Occurrence, SuffixIndex

MAX_OCCURRENCES = 16
FEW, MANY = 2, 4  # agreeing places from which a guess has some support, and much


class Continuation(NamedTuple):
    """A guess.

    Args:
        token_id: Its token.
        prob: Probability that it is right, given that the path before it is.
        evidence: What speaks for it.
        places: Where to look for what follows on it.
    """

    token_id: int
    prob: float
    evidence: Evidence
    places: tuple[Occurrence, ...]


class NgramText:
    """A session's tokens and what they have taught.

    Args:
        token_ids: Prompt and committed tokens.
        shared_rates: Experience of all sessions.
    """

    def __init__(self, token_ids: Sequence[int], shared_rates: AcceptanceRates) -> None:
        self._index = SuffixIndex(token_ids)
        self._rates = AcceptanceRates(shared_rates)

    @property
    def last_token(self) -> int:
        """The token that the text ends with."""
        return self._index.token_ids[-1]

    def extend(self, token_ids: Sequence[int]) -> None:
        """Appends committed tokens."""
        self._index.extend(token_ids)

    def places(self) -> tuple[Occurrence, ...]:
        """Earlier places that match the end of the text."""
        return tuple(self._index.occurrences(MAX_OCCURRENCES))

    def continuations(self, places: Sequence[Occurrence], limit: int) -> list[Continuation]:
        """What followed at some places, the likeliest first.

        Args:
            places: All matching the path so far, the longest match first.
            limit: Most guesses, at least 1.
        """
        text = self._index.token_ids
        groups: dict[int, list[Occurrence]] = {}
        for place in places:
            if place.next_index < len(text):
                groups.setdefault(text[place.next_index], []).append(place)
        rated = [(self._rates.rate(_evidence(group)), group) for group in groups.values()]
        rated.sort(key=lambda pair: -pair[0])  # stable: of equal ones the longest match first
        found: list[Continuation] = []
        prob_left = 1.0  # that none of the better ones is right
        for rate, group in rated[:limit]:
            below = tuple(place.followed() for place in group)
            token_id = text[group[0].next_index]
            found.append(Continuation(token_id, prob_left * rate, _evidence(group), below))
            prob_left *= 1.0 - rate
        return found

    def learn(self, continuations: Sequence[Continuation], token_id: int) -> None:
        """Notes which guesses were right where the target's token was `token_id`."""
        for guess in continuations:
            self._rates.note(guess.evidence, guess.token_id == token_id)
            if guess.token_id == token_id:
                return


def _evidence(group: Sequence[Occurrence]) -> Evidence:
    """What speaks for a guess on which some places agree, the longest match first."""
    support = (len(group) >= FEW) + (len(group) >= MANY)
    return Evidence(group[0].match_length, support)
