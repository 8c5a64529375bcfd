"""Whether the gateway can serve now; the truth behind all health answers.

Shell. A request can be served when a draft worker with a verify worker behind it answers, and its
target fits the gateway's tokenizer.
"""

import logging
from collections.abc import Awaitable, Callable

from gateway.draft_workers import DraftWorkers

_logger = logging.getLogger(__name__)


class Readiness:
    """The last answer.

    Args:
        workers: Whose answers count.
        on_change: Told with every new answer: the reason not to serve, or "".
    """

    def __init__(self, workers: DraftWorkers, on_change: Callable[[str], Awaitable[None]]) -> None:
        self._workers = workers
        self._on_change = on_change
        self._reason = "starting"
        self._is_draining = False

    @property
    def reason(self) -> str:
        """Why no request can be served now; "" where one can."""
        return self._reason

    async def watch(self) -> None:
        """Follows the workers until cancelled."""
        while True:
            await self._workers.changed()
            await self._set(self._workers.problem)

    async def ask(self) -> None:
        """Asks all workers once."""
        await self._workers.ask()
        await self._set(self._workers.problem)

    async def drain(self) -> None:
        """From now on for ever: not serving."""
        self._is_draining = True
        await self._set("draining")

    async def _set(self, reason: str) -> None:
        if self._is_draining:
            reason = "draining"
        if reason == self._reason:
            return
        self._reason = reason
        if reason:
            _logger.warning("not serving: %s", reason)
        else:
            _logger.info("serving")
        await self._on_change(reason)
