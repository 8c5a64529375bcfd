"""One child process: its start, its output line by line, its end.

The child gets a session of its own, so that a Ctrl-C in the terminal reaches only us, and a pipe as
standard input that we never write to: it ends when we do, whatever ends us.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from outrider.supervised import SUPERVISED_VARIABLE

MAX_LINE_BYTES: Final = 64 * 1024
OUTPUT_TIMEOUT_S: Final = 1.0  # for output that a grandchild holds open

OnLine = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run.

    Args:
        name: Short name for people, such as "verify".
        command: Program and arguments.
        stop_timeout_s: Time it gets to end by itself when told to stop.
        environment: Added to this process's own.
    """

    name: str
    command: tuple[str, ...]
    stop_timeout_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """A running process; whoever starts it waits for it.

    Args:
        process: The process.
        output: Reads what it writes, until it ends.
    """

    def __init__(self, process: asyncio.subprocess.Process, output: "asyncio.Task[None]") -> None:
        self._process = process
        self._output = output

    @classmethod
    async def start(cls, spec: ChildSpec, on_line: OnLine) -> Self:
        """Starts a child.

        Args:
            spec: What to run.
            on_line: Called with the child's name and each line it writes to stdout or stderr.

        Raises:
            OSError: The program cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *spec.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", SUPERVISED_VARIABLE: "1"}
            | dict(spec.environment),
            **_own_group(),
        )
        return cls(process, asyncio.create_task(_read_lines(process, spec.name, on_line)))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def wait(self) -> int:
        """Waits for the end and the last line.

        Returns:
            Exit status; minus the signal's number where one killed it.
        """
        status = await self._process.wait()
        await asyncio.wait({self._output}, timeout=OUTPUT_TIMEOUT_S)
        self._output.cancel()
        return status

    def terminate(self) -> None:
        """Asks it to end: SIGTERM, or the end of its standard input where there are no signals."""
        if sys.platform == "win32":
            if self._process.stdin is not None:
                self._process.stdin.close()
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """Ends it and all it has started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


def describe_status(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


async def _read_lines(process: asyncio.subprocess.Process, name: str, on_line: OnLine) -> None:
    """Not StreamReader.readline: that raises on a long line."""
    if process.stdout is None:
        raise RuntimeError("the child was started without a pipe")
    rest = b""
    while chunk := await process.stdout.read(MAX_LINE_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        for line in lines:
            on_line(name, _shown(line))
    if rest:
        on_line(name, _shown(rest))


def _shown(line: bytes) -> str:
    """What a terminal would show in the end: of a bar that was drawn again and again, the last."""
    return line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
