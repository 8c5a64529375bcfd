"""Reads as much PromQL as is needed to say which series a query asks for. Knows no metrics."""

import re

# Series that Prometheus makes itself.
OWN_SERIES = frozenset({"up", "ALERTS"})

_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_LABELS = re.compile(r"\{[^}]*\}")
_RANGE = re.compile(r"\[[^]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_NAME = re.compile(r"(?<![\w:.$])([a-zA-Z_:][\w:]*)(?!\w|\s*\()")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset"})


def series_of(query: str) -> set[str]:
    """Names of all series that a query asks for."""
    for part in (_QUOTED, _LABELS, _RANGE, _GROUPING):
        query = part.sub(" ", query)
    # What comes before a bracket is a function; words like `by` in front of one went above.
    return {name for name in _NAME.findall(query) if name not in _WORDS}


def outcomes_of(query: str) -> set[str]:
    """Values that a query compares the label `outcome` with."""
    found = re.findall(r'outcome=~?"([^"]*)"', query)
    return {value for one in found for value in one.split("|")}
