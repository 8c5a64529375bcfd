"""Shows a load test: a table, a JSON document, and a picture of rates and waiting over the load."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from outrider.evaluation.load import Load, Point
from outrider.evaluation.svg_page import GAP, ROW_HEIGHT, SERIES_COLOURS, Page

LABEL_WIDTH = 190
BAR_WIDTH = 480


def load_table(points: Sequence[Point]) -> Table:
    """One line a method and load."""
    table = Table("load", "method", title="under load, through the whole service")
    for column in (
        "tokens/s",
        "answers/s",
        "first token ms, p50",
        "p99",
        "between messages ms, p50",
        "p99",
        "tokens per round",
        "KV peak",
        "refused",
    ):
        table.add_column(column, justify="right")
    for index, point in enumerate(points):
        is_last = index + 1 == len(points) or points[index + 1].load != point.load
        table.add_row(
            point.load.name,
            point.method,
            f"{point.token_rate:.1f}",
            f"{point.request_rate:.2f}",
            *(f"{value:.0f}" for value in (*point.first_ms, *point.gap_ms)),
            f"{point.tokens_per_round:.2f}",
            "-" if point.kv_peak is None else f"{point.kv_peak:.0%}",
            str(point.refused),
            end_section=is_last,
        )
    return table


def load_document(points: Sequence[Point], run: Mapping[str, Any]) -> dict[str, Any]:
    """All of it as JSON values."""
    return {"run": dict(run), "points": [asdict(point) for point in points]}


def draw_load(points: Sequence[Point], title: str) -> str:
    """An SVG: tokens a second, time to the first token and between messages, by load and method."""
    page = Page()
    page.down(GAP)
    page.text(GAP, title, weight="bold")
    page.down(ROW_HEIGHT + GAP / 2)
    methods = list(dict.fromkeys(point.method for point in points))
    for name, unit, values in (
        ("Tokens a second, all streams together", "", [p.token_rate for p in points]),
        ("Time to the first token, median", " ms", [p.first_ms[0] for p in points]),
        ("Time between messages, 99th percentile", " ms", [p.gap_ms[1] for p in points]),
    ):
        page.text(GAP, name)
        page.down(ROW_HEIGHT)
        largest = max(values) or 1.0
        load: Load | None = None
        for point, value in zip(points, values, strict=True):
            if load is not None and load != point.load:
                page.down(GAP / 2)
            load = point.load
            colour = SERIES_COLOURS[methods.index(point.method) % len(SERIES_COLOURS)]
            page.text(LABEL_WIDTH - 8, f"{point.load.name}, {point.method}", anchor="end")
            page.bar(LABEL_WIDTH, BAR_WIDTH * value / largest, colour)
            page.text(LABEL_WIDTH + BAR_WIDTH * value / largest + 8, f"{value:.1f}{unit}")
            page.down(ROW_HEIGHT)
        page.down(GAP)
    return page.svg()
