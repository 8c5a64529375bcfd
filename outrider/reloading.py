"""Takes files into use again when they have changed, or when SIGHUP asks for it.

Shell: owns the clock, the signal and the looking. What cannot be used is named in the log, and what
was in use before stays.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

INTERVAL_S = 1.0

_logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reloadable:
    """Files that belong together.

    Args:
        name: For the log, such as "API keys".
        paths: The files.
        load: Takes them into use; raises ValueError, with words for the log, where it cannot.
    """

    name: str
    paths: Sequence[Path]
    load: Callable[[], None]

    def signature(self) -> _Signature:
        """Differs where a file was written, replaced, or made readable."""
        return tuple(_stamp(path) for path in self.paths)


class Reloader:
    """Looks after some files.

    Args:
        parts: Which.
    """

    def __init__(self, parts: Sequence[Reloadable]) -> None:
        self._seen = {part: part.signature() for part in parts}
        self._asked = asyncio.Event()

    async def watch(self) -> None:
        """Looks until cancelled; SIGHUP makes it look at once, and load whatever it finds."""
        if not self._seen:
            await asyncio.Event().wait()  # SIGHUP means what it always does
        with self._asked_by_signal():
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._asked.wait(), INTERVAL_S)
                is_asked = self._asked.is_set()
                self._asked.clear()
                await asyncio.to_thread(self.look, is_asked)

    @contextmanager
    def _asked_by_signal(self) -> Iterator[None]:
        if not hasattr(signal, "SIGHUP"):  # Windows; there files are looked at all the same
            yield
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._asked.set)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    def look(self, is_asked: bool = False) -> None:
        """Loads what has changed.

        Args:
            is_asked: True: the rest too.
        """
        for part, seen in self._seen.items():
            # Taken before the files are read: what is written meanwhile is seen next time.
            signature = part.signature()
            if signature == seen and not is_asked:
                continue
            self._seen[part] = signature
            try:
                part.load()
            except ValueError as error:
                _logger.error("%s stay as they were: %s", part.name, error)
            else:
                _logger.info("%s were loaded again", part.name)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size
