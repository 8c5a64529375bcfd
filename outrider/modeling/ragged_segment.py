"""One session's rows of a forward pass, and who among them sees whom."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RaggedSegment:
    """One session's rows of a pass.

    Args:
        start: First row in the pass.
        stop: Row behind the last.
        cached_rows: Rows of the session in the pool before this pass.
        slots: Slots of its rows `[0, cached_rows + stop - start)`; a range where contiguous.
        visible: Bool `[num_rows, cached_rows + num_rows]`; None where a single row sees all.
        tail_positions: Positions of the last rows of the context, the new ones among them; rows
            before are at the positions that they are numbered by. None where no layer has a
            sliding window.
    """

    start: int
    stop: int
    cached_rows: int
    slots: range | list[int]
    visible: Tensor | None
    tail_positions: Tensor | None = None

    @property
    def num_rows(self) -> int:
        """New rows."""
        return self.stop - self.start

    @property
    def context(self) -> int:
        """Rows that they may see, themselves included."""
        return self.cached_rows + self.num_rows

    def seen(self, window: int | None) -> Tensor | None:
        """Who sees whom.

        Args:
            window: Rows that far behind are invisible (sliding-window layers), or None.

        Returns:
            Bool `[num_rows, context]`, or None where all is seen.
        """
        if window is None or self.context <= window:
            return self.visible
        tail = self.tail_positions
        assert tail is not None, "a sliding window needs positions"
        positions = torch.cat([torch.arange(self.context - len(tail)), tail])
        near = positions[self.cached_rows :, None] - positions[None, :] < window
        return near if self.visible is None else self.visible & near
