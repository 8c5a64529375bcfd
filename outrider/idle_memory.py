"""A worker that has nothing to do gives memory that it no longer uses back to the system.

The C library keeps what was freed for the next pass; which sizes pile up is chance. Between two
requests that would only cost page faults, so it is done once in each longer pause.
"""

import ctypes
import math
from collections.abc import Callable
from contextlib import suppress

IDLE_S = 2.0


def trim_heap() -> None:
    """Returns free pages of the heap; does nothing where the C library cannot."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class IdleMemory:
    """Watches for pauses.

    Args:
        give_back: Called once in each.
    """

    def __init__(self, give_back: Callable[[], object] = trim_heap) -> None:
        self._give_back = give_back
        self._idle_since: float | None = None  # None: nothing to give back; infinity: busy

    def note(self, is_idle: bool, now: float) -> None:
        """Takes what the worker is doing.

        Args:
            is_idle: It has no sessions.
            now: Seconds, on a clock that never goes back.
        """
        if not is_idle:
            self._idle_since = math.inf
        elif self._idle_since is not None:
            self._idle_since = min(self._idle_since, now)
            if now - self._idle_since >= IDLE_S:
                self._idle_since = None
                self._give_back()
