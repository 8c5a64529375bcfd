"""A line of the go-live list: what was looked at, what came out, what to do. Policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a line says."""

    PASS = "PASS"
    WARN = "WARN"  # it may be meant so; look at it
    FAIL = "FAIL"
    SKIPPED = "SKIPPED"  # could not be looked at


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Args:
        name: What was looked at.
        verdict: What came out.
        figure: What was seen, with units.
        advice: What to do where it is not PASS.
    """

    name: str
    verdict: Verdict
    figure: str
    advice: str = ""


def passed(name: str, figure: str) -> Line:
    """A line with nothing to do."""
    return Line(name, Verdict.PASS, figure)


def failed(name: str, figure: str, advice: str) -> Line:
    """A line that stops going live."""
    return Line(name, Verdict.FAIL, figure, advice)


def warned(name: str, figure: str, advice: str) -> Line:
    """A line to look at."""
    return Line(name, Verdict.WARN, figure, advice)


def skipped(name: str, why: str, advice: str = "") -> Line:
    """A line that could not be looked at."""
    return Line(name, Verdict.SKIPPED, why, advice)


def may_go_live(lines: Sequence[Line]) -> bool:
    """True where nothing failed."""
    return all(line.verdict is not Verdict.FAIL for line in lines)
