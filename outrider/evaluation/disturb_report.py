"""Shows a disturbed run: a table, a sentence, and a JSON document."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from outrider.evaluation.disturbance import Outcome
from outrider.evaluation.load import percentile


def disturbance_table(outcome: Outcome) -> Table:
    """One line a kind of blow."""
    table = Table("what happened", title="streams that went on elsewhere: their longest silence")
    for column in ("times", "streams", "p50 s", "p99 s", "longest s"):
        table.add_column(column, justify="right")
    for gaps in outcome.gaps:
        figures = ["-"] * 3
        if gaps.longest_s:
            values = (percentile(gaps.longest_s, share) for share in (0.5, 0.99, 1.0))
            figures = [f"{value:.2f}" for value in values]
        table.add_row(gaps.kind, str(gaps.blows), str(len(gaps.longest_s)), *figures)
    return table


def verdict_lines(outcome: Outcome) -> list[str]:
    """What clients noticed, in words."""
    equal = outcome.streams - len(outcome.differing) - len(outcome.problems)
    lines = [
        f"{outcome.streams} streams, {outcome.tokens} tokens; {outcome.moved} streams went on "
        f"elsewhere; {equal} equal to the undisturbed run, {len(outcome.differing)} differ, "
        f"{len(outcome.problems)} failed"
    ]
    lines += [f"  {many} x {problem}" for problem, many in Counter(outcome.problems).most_common()]
    return lines


def disturbance_document(outcome: Outcome, run: Mapping[str, Any]) -> dict[str, Any]:
    """All of it as JSON values."""
    return {"run": dict(run), "passed": outcome.passed, "outcome": asdict(outcome)}
