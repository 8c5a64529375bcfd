"""Whether an event loop gets on, seen from another thread."""

import asyncio
import time
from collections.abc import Callable

INTERVAL_S = 1.0


class Pulse:
    """Beats while its loop turns; until `beat` begins it counts as live.

    Args:
        patience_s: Time without a beat after which it does not, seconds.
        clock: Seconds, monotonic.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._late_at = float("inf")

    async def beat(self) -> None:
        """Beats until cancelled."""
        while True:
            self._late_at = self._clock() + self._patience_s
            await asyncio.sleep(INTERVAL_S)

    @property
    def is_live(self) -> bool:
        """False where the loop hangs; from any thread."""
        return self._clock() <= self._late_at
