"""Shows a benchmark: tables and one JSON document.

Knows nothing of how samples are obtained; the sums are `throughput.py`'s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from outrider.evaluation.throughput import (
    PARTS,
    Estimate,
    Sample,
    Summary,
    geometric_mean,
    rate_ratio,
    summarise,
)

ALL_TASKS = "all"


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one task.

    Args:
        task: Name, or "all".
        method: Draft method, or the baseline's name.
        summary: Its sums.
        ratios: Its decode rate over that of each method that is compared with, itself excepted.
    """

    task: str
    method: str
    summary: Summary
    ratios: dict[str, Estimate]


def cells_of(samples: Mapping[str, Sequence[Sample]], against: Sequence[str]) -> list[Cell]:
    """Sums up each method on each task, and on all where there are several.

    Args:
        samples: By method; each list has the same prompts in the same order.
        against: The methods that ratios refer to.
    """
    tasks = list(
        dict.fromkeys(sample.task for of_method in samples.values() for sample in of_method)
    )
    cells = []
    for task in [*tasks, *([ALL_TASKS] if len(tasks) > 1 else [])]:
        chosen = {
            method: [s for s in of_method if task in (ALL_TASKS, s.task)]
            for method, of_method in samples.items()
        }
        timings = {method: [s.timing for s in of_method] for method, of_method in chosen.items()}
        for method, of_method in chosen.items():
            ratios = {
                other: ratio
                for other in against
                if other != method and (ratio := rate_ratio(timings[method], timings[other]))
            }
            cells.append(Cell(task, method, summarise(of_method), ratios))
    return cells


def rates_table(cells: Sequence[Cell], against: Sequence[str]) -> Table:
    """Speeds and what speculation did."""
    table = Table("task", "method", title="tokens/s through the whole service, and 95% intervals")
    columns = ("decode", "with prompt", "first token ms", "tokens per round", "accepted")
    for column in (*columns, *(f"decode / {other}" for other in against)):
        table.add_column(column, justify="right")
    for index, cell in enumerate(cells):
        summary = cell.summary
        has_rounds = bool(summary.round_us)
        is_last = index + 1 == len(cells) or cells[index + 1].task != cell.task
        table.add_row(
            cell.task,
            cell.method,
            f"{summary.decode_rate:.1f}",
            f"{summary.whole_rate:.1f}",
            f"{summary.first_ms:.0f}",
            f"{summary.tokens_per_round:.2f}" if has_rounds else "-",
            f"{summary.acceptance:.0%}" if has_rounds else "-",
            *(ratio_text(cell.ratios.get(other)) for other in against),
            end_section=is_last,
        )
    return table


@dataclass(frozen=True, slots=True)
class Means:
    """One method over all tasks, each task weighing the same.

    Args:
        method: Draft method, or the baseline's name.
        tokens_per_round: Arithmetic mean over the tasks.
        ratios: Geometric means of the decode rate over that of each method compared with.
        least_ratios: The smallest of the same.
    """

    method: str
    tokens_per_round: float
    ratios: dict[str, float]
    least_ratios: dict[str, float]


def means_of(cells: Sequence[Cell]) -> list[Means]:
    """The means of each method over the tasks; none where there is one task only."""
    by_method: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.task != ALL_TASKS:
            by_method.setdefault(cell.method, []).append(cell)
    means = []
    for method, of_method in by_method.items():
        if len(of_method) < 2:
            continue
        shared = set.intersection(*({*cell.ratios} for cell in of_method))
        ratios = {o: [c.ratios[o].value for c in of_method] for o in sorted(shared)}
        lengths = [cell.summary.tokens_per_round for cell in of_method]
        means.append(
            Means(
                method,
                sum(lengths) / len(lengths),
                {other: geometric_mean(values) for other, values in ratios.items()},
                {other: min(values) for other, values in ratios.items()},
            )
        )
    return means


def means_table(means: Sequence[Means], against: Sequence[str]) -> Table:
    """What tells methods apart at a glance."""
    table = Table("method", title="means over the tasks (ratios: geometric, and the least)")
    table.add_column("tokens per round", justify="right")
    for other in against:
        table.add_column(f"decode / {other}", justify="right")
    for one in means:
        table.add_row(
            one.method,
            f"{one.tokens_per_round:.2f}" if one.tokens_per_round else "-",
            *(
                f"{one.ratios[other]:.2f} ({one.least_ratios[other]:.2f})"
                if other in one.ratios
                else "-"
                for other in against
            ),
        )
    return table


def depth_table(cells: Sequence[Cell]) -> Table:
    """How often candidates were accepted at each depth, given that they were reached."""
    table = Table("task", "method", title="acceptance by depth, of the rounds that got there")
    depths = max((len(cell.summary.acceptance_by_depth) for cell in cells), default=0)
    for depth in range(1, depths + 1):
        table.add_column(str(depth), justify="right")
    for cell in cells:
        shares = cell.summary.acceptance_by_depth
        if shares:
            table.add_row(cell.task, cell.method, *(f"{share:.0%}" for share in shares))
    return table


def split_table(cells: Sequence[Cell]) -> Table:
    """Where a mean round's time went."""
    table = Table("task", "method", title="a round, microseconds (and share)")
    for column in (*PARTS, "sum", "wire + other", "of decoding"):
        table.add_column(column, justify="right")
    for cell in cells:
        parts = cell.summary.round_us
        if not parts:
            continue
        total = sum(parts.values())
        table.add_row(
            cell.task,
            cell.method,
            *(f"{parts[part]:.0f} ({parts[part] / total:.1%})" for part in PARTS),
            f"{total:.0f}",
            f"{cell.summary.services_share:.1%}",
            f"{cell.summary.services_share_of_decode:.1%}",
        )
    return table


def ratio_text(ratio: Estimate | None) -> str:
    """The ratio with its interval."""
    return "-" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def document_of(
    cells: Sequence[Cell],
    means: Sequence[Means],
    samples: Mapping[str, Sequence[Sample]],
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """All of a benchmark as JSON values.

    Args:
        cells: The sums.
        means: Over the tasks.
        samples: What they are sums of.
        run: How it was run.
    """
    return {
        "run": dict(run),
        "results": [asdict(cell) for cell in cells],
        "means": [asdict(one) for one in means],
        "samples": {method: [asdict(s) for s in rows] for method, rows in samples.items()},
    }
