"""Draws a benchmark as an SVG: decode rates by task, and the split of a round by method.

Text and rectangles only, so that any viewer shows it alike. Knows nothing of how it was measured.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from outrider.evaluation.bench_report import Cell, ratio_text
from outrider.evaluation.throughput import PARTS

METHOD_COLOURS = ("#9aa5b1", "#1f6feb", "#d97706", "#2da44e", "#8250df", "#cf222e")
PART_COLOURS = {
    "draft": "#2da44e",
    "wire": "#d97706",
    "queue": "#8250df",
    "verify": "#1f6feb",
    "other": "#cf222e",
}
WIDTH = 860
LABEL_WIDTH = 190
VALUE_WIDTH = 190
BAR_WIDTH = WIDTH - LABEL_WIDTH - VALUE_WIDTH
BAR_HEIGHT = 18
ROW_HEIGHT = 24
GAP = 16
FONT = "font-family='sans-serif' font-size='13'"


class _Page:
    """Grows downwards as things are drawn."""

    def __init__(self) -> None:
        self.y = 0.0
        self._parts: list[str] = []

    def text(self, x: float, text: str, *, anchor: str = "start", weight: str = "normal") -> None:
        y = self.y + BAR_HEIGHT * 0.75
        self._parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' {FONT} text-anchor='{anchor}' "
            f"font-weight='{weight}' fill='#24292f'>{escape(text)}</text>"
        )

    def bar(self, x: float, width: float, colour: str) -> None:
        self._parts.append(
            f"<rect x='{x:.1f}' y='{self.y:.1f}' width='{max(width, 0.0):.1f}' "
            f"height='{BAR_HEIGHT}' fill='{colour}'/>"
        )

    def down(self, distance: float) -> None:
        self.y += distance

    def svg(self) -> str:
        height = self.y + GAP
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height:.0f}' "
            f"viewBox='0 0 {WIDTH} {height:.0f}'>\n"
            f"<rect width='{WIDTH}' height='{height:.0f}' fill='white'/>\n"
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )


def draw(cells: Sequence[Cell], against: str, title: str) -> str:
    """The picture.

    Args:
        cells: At least one.
        against: The method that shown ratios refer to.
        title: Its first line.

    Returns:
        An SVG document.
    """
    page = _Page()
    page.down(GAP)
    page.text(GAP, title, weight="bold")
    page.down(ROW_HEIGHT + GAP / 2)
    _draw_rates(page, cells, against)
    _draw_splits(page, [cell for cell in cells if cell.summary.round_us])
    return page.svg()


def _draw_rates(page: _Page, cells: Sequence[Cell], against: str) -> None:
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
        colour = METHOD_COLOURS[methods.index(cell.method) % len(METHOD_COLOURS)]
        page.text(LABEL_WIDTH - 8, f"{cell.task}, {cell.method}", anchor="end")
        page.bar(LABEL_WIDTH, BAR_WIDTH * rate / best, colour)
        ratio = cell.ratios.get(against)
        value = f"{rate:.1f}" + (f"   x {ratio_text(ratio)}" if ratio else "")
        page.text(LABEL_WIDTH + BAR_WIDTH * rate / best + 8, value)
        page.down(ROW_HEIGHT)
    page.down(GAP)


def _draw_splits(page: _Page, cells: Sequence[Cell]) -> None:
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
