"""Shows a disturbed run: a table, and what clients noticed in words."""

from collections import Counter
from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from outrider.evaluation.cancelling import CLEAN_TIMEOUT_S, Remains
from outrider.evaluation.disturbance import GRACE_S, Ending, Outcome
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


def endings_table(endings: Sequence[Ending]) -> Table:
    """One line a process."""
    table = Table("told to end", title=f"SIGTERM: ends with status 0 within {GRACE_S:g} s")
    for column in ("times", "status", "took p50 s", "longest s"):
        table.add_column(column, justify="right")
    for name in sorted({ending.victim for ending in endings}):
        own = [ending for ending in endings if ending.victim == name]
        statuses = Counter("none" if one.status is None else str(one.status) for one in own)
        times = [ending.took_s for ending in own]
        table.add_row(
            name,
            str(len(own)),
            ", ".join(f"{many} x {status}" for status, many in sorted(statuses.items())),
            f"{percentile(times, 0.5):.2f}",
            f"{max(times):.2f}",
        )
    return table


def outcome_lines(outcome: Outcome) -> list[RenderableType]:
    """A table of silences, and what clients noticed."""
    equal = outcome.streams - len(outcome.differing) - len(outcome.problems)
    lines: list[RenderableType] = [
        disturbance_table(outcome),
        f"{outcome.streams} streams, {outcome.tokens} tokens; {outcome.moved} streams went on "
        f"elsewhere; {equal} equal to the undisturbed run, {len(outcome.differing)} differ, "
        f"{len(outcome.problems)} failed",
    ]
    if outcome.endings:
        lines.insert(1, endings_table(outcome.endings))
    if any(outcome.left.values()):
        left = ", ".join(f"{name} {value:g}" for name, value in outcome.left.items() if value)
        lines.append(f"  still in use at the end: {left}")
    lines += [f"  {many} x {problem}" for problem, many in Counter(outcome.problems).most_common()]
    return lines


def remains_lines(remains: Remains) -> list[RenderableType]:
    """What cancelled streams left behind, in words."""
    lines: list[RenderableType] = [
        f"{remains.cancels} streams cancelled, {remains.ended} had ended before"
    ]
    if remains.clean_s is None:
        left = ", ".join(f"{name} {value:g}" for name, value in remains.left.items() if value)
        lines.append(f"  still in use {CLEAN_TIMEOUT_S:g} s later: {left}")
    else:
        lines.append(f"  nothing in use {remains.clean_s:.2f} s later")
    lines += [f"  {name} grew by {mib:.1f} MiB" for name, mib in remains.grown_mib.items()]
    return lines
