"""Where evaluations write: the console, and the progress bar of a long run.

Knows nothing of what is measured.
"""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PIPE_WIDTH = 140  # a pipe has no width of its own, and rich's guess of 80 breaks the tables


def open_console() -> Console:
    """The terminal, or a pipe that is wide enough for the tables."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPE_WIDTH)


def progress_bar(console: Console) -> Progress:
    """A bar with counts, elapsed time and the estimated rest; prints nothing into a pipe."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        # A run of a few long steps needs a long memory for its speed.
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=600,
        disable=not console.is_terminal,
    )
