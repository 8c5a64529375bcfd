"""Finds stop strings in text that arrives in parts, and never lets a part of one through.

The string that is complete first ends the text; of two that end with the same character, the
longer. So the result does not depend on how the text was cut into tokens. Policy: plain values.

Each string is followed by a Knuth-Morris-Pratt automaton: its state is the length of the longest
prefix that the text ends with, which is also what must be held back. Constant work per character.
"""

from collections.abc import Sequence
from typing import NamedTuple


class Scanned(NamedTuple):
    """What one part of the text became.

    Args:
        text: Text that may be shown now.
        is_stopped: True: a stop string is complete; `text` ends before it and is the last.
    """

    text: str
    is_stopped: bool


class StopStrings:
    """Watches one stream's text for its stop strings.

    Args:
        strings: None of them empty.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._borders = [_borders(string) for string in strings]
        self._matched = [0] * len(self._strings)
        self._held = ""

    def scan(self, text: str, may_stop: bool = True) -> Scanned:
        """Takes the next part of the text.

        Args:
            text: Any number of characters.
            may_stop: False: a stop string that is complete within this part does not count.

        Returns:
            What may be shown: everything but what could still become a stop string.
        """
        if not self._strings:
            return Scanned(text, False)
        pending = self._held + text
        for place in range(len(self._held), len(pending)):
            length = self._advance(pending[place])
            if length and may_stop:
                self._held = ""
                return Scanned(pending[: place + 1 - length], True)
        shown = len(pending) - max(self._matched)
        self._held = pending[shown:]
        return Scanned(pending[:shown], False)

    def flush(self) -> str:
        """The text held back, at an end that was no stop string."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> int:
        """Moves all automata; the length of the longest string that is now complete, else 0."""
        complete = 0
        for index, string in enumerate(self._strings):
            matched = self._matched[index]
            while matched and string[matched] != character:
                matched = self._borders[index][matched - 1]
            matched += string[matched] == character
            if matched == len(string):
                complete = max(complete, matched)
                matched = self._borders[index][-1]
            self._matched[index] = matched
        return complete


def _borders(string: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(string)
    matched = 0
    for place in range(1, len(string)):
        while matched and string[matched] != string[place]:
            matched = borders[matched - 1]
        matched += string[matched] == string[place]
        borders[place] = matched
    return borders
