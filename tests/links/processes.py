"""The processes of a link test: started with their own log files, ended by SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from outrider.evaluation.service import wait_until_served

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
POLL_S = 2.0
TAIL = 3000


class LinkTestFailed(Exception):
    """A process did not do what it had to; the message ends with what it wrote."""


class Processes:
    """Whoever enters it owns the end of all that is started.

    Args:
        folder: For log files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_TIMEOUT_S
        for process in self._running.values():
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(
        self, name: str, module: str, words: Sequence[object], before: Sequence[str] = ()
    ) -> None:
        """Starts `python -m MODULE`.

        Args:
            name: Of the process and its log.
            module: What to run.
            words: Arguments.
            before: What to put before the command.
        """
        command = [*before, sys.executable, "-m", module, *map(str, words)]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # a Ctrl-C reaches it once, from here
            )

    def stop(self, name: str) -> None:
        """Ends one and waits for it.

        Raises:
            LinkTestFailed: It does not end with status 0.
        """
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise LinkTestFailed(f"{name} did not end:\n{self.written(name)}") from None
        if status:
            raise LinkTestFailed(f"{name} ended with status {status}:\n{self.written(name)}")

    def wait_until_served(self, address: str) -> None:
        """Returns when the gateway serves.

        Raises:
            LinkTestFailed: It does not, or a process has ended before.
        """
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            gone = [name for name, one in self._running.items() if one.poll() is not None]
            written = "\n".join(self.written(name) for name in gone or self._running)
            if gone or time.monotonic() > end:
                raise LinkTestFailed(f"the service does not come up:\n{written}")
            try:
                wait_until_served(address, self._running["gateway"], POLL_S)
            except (ChildProcessError, TimeoutError):
                continue
            return

    def written(self, name: str) -> str:
        """The end of a process's log."""
        text = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return f"--- {name}\n{text[-TAIL:]}"
