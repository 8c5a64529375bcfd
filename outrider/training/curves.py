"""Draws a training run as an SVG: loss and accuracy of each chain step over the optimisation steps.

Lines are training steps (means over a few), dots are held-out conversations. Text and lines only,
so that any viewer shows it alike. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

COLOURS = ("#1f6feb", "#2da44e", "#d97706", "#8250df", "#cf222e", "#0e7490", "#9aa5b1")
WIDTH, PANEL_HEIGHT = 860, 260
LEFT, RIGHT, TOP, GAP = 60, 120, 54, 46
GRID_LINES = 5
POINTS = 200  # of a line; more steps are averaged
FONT = "font-family='sans-serif' font-size='12' fill='#24292f'"

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Panel:
    """One diagram: where it lies and what its axes span."""

    title: str
    key: str
    top: float
    steps: int
    low: float
    high: float

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(self.steps, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / max(self.high - self.low, 1e-9)
        return self.top + PANEL_HEIGHT * (1.0 - share)


def draw_curves(records: Sequence[Record], title: str) -> str:
    """The picture.

    Args:
        records: Of a `TrainingLog`.
        title: Its first line.

    Returns:
        An SVG document.
    """
    steps = max((record["step"] for record in records), default=1)
    losses = [value for record in records for value in record["losses"]]
    panels = [
        _Panel("Cross-entropy", "losses", TOP, steps, min(losses, default=0.0),
               max(losses, default=1.0)),
        _Panel("Accuracy: the guess is the text's token", "accuracies",
               TOP + PANEL_HEIGHT + GAP, steps, 0.0, 1.0),
    ]  # fmt: skip
    parts = [_text(LEFT, 20, title, "font-weight='bold'")]
    for panel in panels:
        parts += [*_axes(panel), *_lines(panel, records), *_dots(panel, records)]
    parts += _legend(len(records[0]["losses"]) if records else 0)
    height = TOP + 2 * PANEL_HEIGHT + 2 * GAP
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
        f"viewBox='0 0 {WIDTH} {height}'>\n<rect width='{WIDTH}' height='{height}' "
        "fill='white'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _axes(panel: _Panel) -> list[str]:
    parts = [_text(LEFT, panel.top - 8, panel.title)]
    for line in range(GRID_LINES + 1):
        value = panel.low + (panel.high - panel.low) * line / GRID_LINES
        step = panel.steps * line / GRID_LINES
        y = panel.y(value)
        parts.append(
            f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}' stroke='#d0d7de'/>"
        )
        parts.append(_text(LEFT - 6, y + 4, f"{value:.2f}", "text-anchor='end'"))
        below = panel.top + PANEL_HEIGHT + 16
        parts.append(_text(panel.x(step), below, f"{step:.0f}", "text-anchor='middle'"))
    return parts


def _lines(panel: _Panel, records: Sequence[Record]) -> list[str]:
    trained = [record for record in records if "objective" in record]
    width = max(1, -(-len(trained) // POINTS))
    groups = [trained[begin : begin + width] for begin in range(0, len(trained), width)]
    parts = []
    for chain_step in range(len(trained[0][panel.key]) if trained else 0):
        points = " ".join(
            f"{panel.x(group[-1]['step']):.1f},"
            f"{panel.y(sum(one[panel.key][chain_step] for one in group) / len(group)):.1f}"
            for group in groups
        )
        parts.append(
            f"<polyline points='{points}' fill='none' stroke='{_colour(chain_step)}' "
            "stroke-width='1.5'/>"
        )
    return parts


def _dots(panel: _Panel, records: Sequence[Record]) -> list[str]:
    return [
        f"<circle cx='{panel.x(record['step']):.1f}' cy='{panel.y(value):.1f}' r='3' "
        f"fill='{_colour(chain_step)}'/>"
        for record in records
        if record.get("held_out")
        for chain_step, value in enumerate(record[panel.key])
    ]


def _legend(chain_steps: int) -> list[str]:
    parts = []
    for chain_step in range(chain_steps):
        y = TOP + 14 + 20 * chain_step
        x = WIDTH - RIGHT + 14
        parts.append(f"<circle cx='{x}' cy='{y}' r='5' fill='{_colour(chain_step)}'/>")
        parts.append(_text(x + 12, y + 4, f"guess {chain_step + 1}"))
    return parts


def _colour(chain_step: int) -> str:
    return COLOURS[chain_step % len(COLOURS)]


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {FONT} {more}>{escape(text)}</text>"
