"""A page of text, bars and lines as SVG, filled from the top; what the pictures are made of."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

SERIES_COLOURS = ("#9aa5b1", "#1f6feb", "#d97706", "#2da44e", "#8250df", "#cf222e")
WIDTH = 860
BAR_HEIGHT = 18
ROW_HEIGHT = 24
GAP = 16
FONT = "font-family='sans-serif' font-size='13'"


class Page:
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

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 2.0) -> None:
        """Points are relative to the page's left edge and the current height."""
        places = " ".join(f"{x:.1f},{self.y + y:.1f}" for x, y in points)
        self._parts.append(
            f"<polyline points='{places}' fill='none' stroke='{colour}' stroke-width='{width}'/>"
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
