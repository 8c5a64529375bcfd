"""What `outrider up` shows: child lines behind their service's name, notes, one ready line.

Children's lines and notes go to stderr, the ready line to stdout. A closed terminal is not an
error: the services go on until they are told to stop.
"""

import contextlib
from typing import Final

from rich.console import Console
from rich.status import Status
from rich.text import Text

_COLOURS: Final = {"gateway": "cyan", "draft": "magenta", "verify": "green"}
_NAME_WIDTH = 7


class UpTerminal:
    """The terminal during `outrider up`.

    Args:
        out: For the ready line; stdout where None.
        err: For all else; stderr where None.
    """

    def __init__(self, out: Console | None = None, err: Console | None = None) -> None:
        self._out = out or Console()
        self._err = err or Console(stderr=True)
        self._status: Status | None = None
        self._loading = ""

    def loading(self, text: str) -> None:
        """Shows a spinner with this text, or changes its text."""
        if text == self._loading:
            return
        self._loading = text
        if not self._err.is_terminal:
            self._print(self._err, Text(text))
        elif self._status is None:
            self._status = self._err.status(Text(text))
            self._status.start()
        else:
            self._status.update(Text(text))

    def loaded(self) -> None:
        """Ends the spinner."""
        if self._status is not None:
            self._status.stop()
        self._status = None
        self._loading = ""

    def child_line(self, name: str, line: str) -> None:
        """Prints a line that a child wrote."""
        text = Text(f"{name:<{_NAME_WIDTH}} ", style=_COLOURS.get(name, ""))
        text.append(line, style="dim")
        self._print(self._err, text)

    def note(self, text: str) -> None:
        """Prints a line about a child, or about us."""
        self._print(self._err, Text.assemble((f"{'outrider':<{_NAME_WIDTH}} ", "bold"), text))

    def ready(self, text: str) -> None:
        """Ends the spinner and prints that the service can be used."""
        self.loaded()
        self._print(self._out, Text(text))

    def _print(self, console: Console, text: Text) -> None:
        with contextlib.suppress(OSError):
            console.print(text, soft_wrap=True, highlight=False)
