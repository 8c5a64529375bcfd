"""Where a training run tells how far it is: a bar with the time left, or now and then a line.

Knows nothing of what is done.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from outrider.evaluation.terminal import open_console, progress_bar

LINE_EVERY_S = 30.0

Advance = Callable[[int], None]


class Terminal:
    """Says things, unless it is that of a rank that only helps.

    Args:
        is_silent: True: nothing is written.
    """

    def __init__(self, is_silent: bool = False) -> None:
        self._console = Console(quiet=True) if is_silent else open_console()

    def say(self, text: str) -> None:
        """One paragraph."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def bar(self, name: str, total: int, done: int = 0) -> Iterator[Advance]:
        """Shows the way of a stage.

        Args:
            name: Of the stage.
            total: Parts of its work.
            done: Parts that an earlier run has finished.

        Yields:
            Takes the number of parts that have been finished since the last call.
        """
        if not self._console.is_terminal:
            yield _Lines(self, name, total, done).advance
            return
        with progress_bar(self._console) as progress:
            job = progress.add_task(name, total=total, completed=done)
            yield lambda parts: progress.advance(job, parts)


class _Lines:
    """A bar for logs and pipes."""

    def __init__(self, terminal: Terminal, name: str, total: int, done: int) -> None:
        self._terminal, self._name, self._total = terminal, name, total
        self._done, self._new = done, 0
        self._begin = self._last = time.monotonic()

    def advance(self, parts: int) -> None:
        """As `Advance`."""
        self._done += parts
        self._new += parts
        now = time.monotonic()
        if now - self._last < LINE_EVERY_S or not self._new:
            return
        self._last = now
        left = (now - self._begin) / self._new * (self._total - self._done)
        self._terminal.say(
            f"{self._name}: {self._done} of {self._total}, {clock(now - self._begin)} elapsed, "
            f"{clock(left)} left"
        )


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, as in 1:02:03."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
