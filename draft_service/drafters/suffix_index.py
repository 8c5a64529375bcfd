"""Where a session's recent tokens have stood before, and what came after them."""

from collections.abc import Sequence
from typing import NamedTuple

MAX_GRAM = 3  # longest indexed n-gram; longer matches are found by comparing backwards
MAX_MATCH = 16  # matches are not compared further back than this


class Occurrence(NamedTuple):
    """A place whose preceding tokens equal the end of the text.

    Args:
        next_index: Index of the token that followed.
        match_length: How many tokens before it equal the end of the text, 1 to MAX_MATCH.
    """

    next_index: int
    match_length: int

    def followed(self) -> "Occurrence":
        """The same place one token on, that token being part of the match now."""
        return Occurrence(self.next_index + 1, min(self.match_length + 1, MAX_MATCH))


class SuffixIndex:
    """The tokens of one session with an index of their 1- to 3-grams.

    Args:
        token_ids: Tokens so far.
    """

    def __init__(self, token_ids: Sequence[int]) -> None:
        self.token_ids: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self.extend(token_ids)

    def extend(self, token_ids: Sequence[int]) -> None:
        """Appends tokens."""
        for token_id in token_ids:
            self.token_ids.append(token_id)
            end = len(self.token_ids)
            for gram in range(1, min(MAX_GRAM, end) + 1):
                self._ends.setdefault(tuple(self.token_ids[end - gram :]), []).append(end)

    def occurrences(self, limit: int) -> list[Occurrence]:
        """Earlier places that match the end of the text.

        Args:
            limit: Most places to return, at least 1.

        Returns:
            The longest matches first, the latest first among equals.
        """
        text, end = self.token_ids, len(self.token_ids)
        found: dict[int, int] = {}
        for gram in range(min(MAX_GRAM, end), 0, -1):
            places = self._ends.get(tuple(text[end - gram :]), [])
            for place in reversed(places[:-1]):  # the last one is the end of the text itself
                if len(found) >= limit:
                    break
                if place not in found:
                    found[place] = self._match_length(place)
        ranked = sorted(found.items(), key=lambda item: (-item[1], -item[0]))
        return [Occurrence(place, match_length) for place, match_length in ranked]

    def _match_length(self, place: int) -> int:
        text, end = self.token_ids, len(self.token_ids)
        length = 0
        while length < min(MAX_MATCH, place) and text[place - 1 - length] == text[end - 1 - length]:
            length += 1
        return length
