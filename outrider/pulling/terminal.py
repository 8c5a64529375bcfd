"""Shows a pull in the terminal: one line a step, a bar with speed and remaining time."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


class TerminalReporter:
    """A `Reporter` for people; a context manager that restores the terminal.

    Args:
        console: Where to write; stderr where None.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def step(self, text: str) -> None:
        """Ends the line of the step before and begins a new one, with its running time."""
        self._stop()
        if not self._console.is_terminal:
            self._console.print(text, highlight=False)
            return
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._progress.start()
        self._task = self._progress.add_task(text, total=None)

    def progress(self, done: int, size: int | None) -> None:
        """Moves the bar."""
        if self._progress is None or self._task is None:
            return
        if len(self._progress.columns) == 3:  # the first bytes of this step: show what is known
            self._progress.columns = (
                self._progress.columns[0],
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
        self._progress.update(self._task, completed=done, total=size)

    def warn(self, text: str) -> None:
        """Prints a line that stays."""
        self._console.print(f"[bold yellow]warning:[/] {text}", highlight=False)

    def _stop(self) -> None:
        if self._progress is not None and self._task is not None:
            task = self._progress.tasks[0]
            self._progress.update(self._task, total=task.total or 1, completed=task.total or 1)
            self._progress.stop()
        self._progress = None
