"""Draws a benchmark as an SVG: decode rates by task, acceptance by depth, the split of a round.

Text, rectangles and lines only, so that any viewer shows it alike. Knows nothing of how it was
measured.
"""

from collections.abc import Sequence

from outrider.evaluation.bench_report import Cell, ratio_text
from outrider.evaluation.svg_page import (
    BAR_HEIGHT,
    GAP,
    ROW_HEIGHT,
    SERIES_COLOURS,
    WIDTH,
    Page,
)
from outrider.evaluation.throughput import PARTS

PART_COLOURS = {
    "draft": "#2da44e",
    "wire": "#d97706",
    "queue": "#8250df",
    "verify": "#1f6feb",
    "other": "#cf222e",
}
LABEL_WIDTH = 190
VALUE_WIDTH = 190
BAR_WIDTH = WIDTH - LABEL_WIDTH - VALUE_WIDTH
PLOT_HEIGHT = 150
DEPTH_WIDTH = 46


def draw(cells: Sequence[Cell], against: str, title: str) -> str:
    """The picture.

    Args:
        cells: At least one.
        against: The method that shown ratios refer to.
        title: Its first line.

    Returns:
        An SVG document.
    """
    page = Page()
    page.down(GAP)
    page.text(GAP, title, weight="bold")
    page.down(ROW_HEIGHT + GAP / 2)
    _draw_rates(page, cells, against)
    _draw_depths(page, cells)
    _draw_splits(page, [cell for cell in cells if cell.summary.round_us])
    return page.svg()


def _draw_rates(page: Page, cells: Sequence[Cell], against: str) -> None:
    methods = list(dict.fromkeys(cell.method for cell in cells))
    best = max(cell.summary.decode_rate for cell in cells) or 1.0
    page.text(GAP, "Tokens per second while decoding")
    page.down(ROW_HEIGHT)
    task = cells[0].task
    for cell in cells:
        if cell.task != task:
            page.down(GAP / 2)
            task = cell.task
        rate = cell.summary.decode_rate
        colour = SERIES_COLOURS[methods.index(cell.method) % len(SERIES_COLOURS)]
        page.text(LABEL_WIDTH - 8, f"{cell.task}, {cell.method}", anchor="end")
        page.bar(LABEL_WIDTH, BAR_WIDTH * rate / best, colour)
        ratio = cell.ratios.get(against)
        value = f"{rate:.1f}" + (f"   x {ratio_text(ratio)}" if ratio else "")
        page.text(LABEL_WIDTH + BAR_WIDTH * rate / best + 8, value)
        page.down(ROW_HEIGHT)
    page.down(GAP)


def _draw_depths(page: Page, cells: Sequence[Cell]) -> None:
    """One line a method, over all tasks (or the only one)."""
    methods = list(dict.fromkeys(cell.method for cell in cells))
    last_task = cells[-1].task
    shown = [c for c in cells if c.task == last_task and c.summary.acceptance_by_depth]
    if not shown:
        return
    page.text(GAP, f"Acceptance by depth, of the rounds that got there ({last_task})")
    x = float(LABEL_WIDTH + 240)
    for cell in shown:
        colour = SERIES_COLOURS[methods.index(cell.method) % len(SERIES_COLOURS)]
        page.bar(x, BAR_HEIGHT, colour)
        page.text(x + BAR_HEIGHT + 6, cell.method)
        x += 110
    page.down(ROW_HEIGHT + GAP / 2)
    depths = max(len(cell.summary.acceptance_by_depth) for cell in shown)
    right = LABEL_WIDTH + DEPTH_WIDTH * depths
    for share in (0.0, 0.5, 1.0):
        y = PLOT_HEIGHT * (1.0 - share)
        page.line([(LABEL_WIDTH, y), (right, y)], "#d0d7de", 1.0)
    for cell in shown:
        shares = cell.summary.acceptance_by_depth
        colour = SERIES_COLOURS[methods.index(cell.method) % len(SERIES_COLOURS)]
        # Level over each depth, so that a single one is seen too.
        edges = [
            (LABEL_WIDTH + DEPTH_WIDTH * (place + side), PLOT_HEIGHT * (1.0 - share))
            for place, share in enumerate(shares)
            for side in (0.1, 0.9)
        ]
        page.line(edges, colour)
    page.down(-BAR_HEIGHT / 2)
    for share in (1.0, 0.5, 0.0):
        page.text(LABEL_WIDTH - 8, f"{share:.0%}", anchor="end")
        page.down(PLOT_HEIGHT / 2)
    page.down(BAR_HEIGHT / 2 + 6 - PLOT_HEIGHT / 2)
    for depth in range(1, depths + 1):
        page.text(LABEL_WIDTH + DEPTH_WIDTH * (depth - 0.5), str(depth), anchor="middle")
    page.down(ROW_HEIGHT + GAP)


def _draw_splits(page: Page, cells: Sequence[Cell]) -> None:
    if not cells:
        return
    longest = max(sum(cell.summary.round_us.values()) for cell in cells)
    page.text(GAP, "One round: where its time goes")
    x = float(LABEL_WIDTH + 60)
    for part in PARTS:
        page.bar(x, BAR_HEIGHT, PART_COLOURS[part])
        page.text(x + BAR_HEIGHT + 6, part)
        x += 90
    page.down(ROW_HEIGHT + GAP / 2)
    for cell in cells:
        page.text(LABEL_WIDTH - 8, f"{cell.task}, {cell.method}", anchor="end")
        x = float(LABEL_WIDTH)
        for part in PARTS:
            width = BAR_WIDTH * max(cell.summary.round_us[part], 0.0) / longest
            page.bar(x, width, PART_COLOURS[part])
            x += width
        total_ms = sum(cell.summary.round_us.values()) / 1e3
        page.text(x + 8, f"{total_ms:.1f} ms, services {cell.summary.services_share:.1%}")
        page.down(ROW_HEIGHT)
