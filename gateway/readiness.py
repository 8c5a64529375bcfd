"""Whether the gateway can serve now, asked anew every second; the truth behind all health answers.

Shell: owns the clock of the question. A request can be served when a draft worker with a verify
worker behind it answers, and its target fits the gateway's tokenizer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.draft_client import DraftClient
from outrider.protocol.errors import OutriderError

INTERVAL_S = 1.0

_logger = logging.getLogger(__name__)


class Readiness:
    """The last answer.

    Args:
        draft: The worker to ask.
        on_change: Told with every new answer: the reason not to serve, or "".
    """

    def __init__(self, draft: DraftClient, on_change: Callable[[str], Awaitable[None]]) -> None:
        self._draft = draft
        self._on_change = on_change
        self._reason = "starting"
        self._is_draining = False

    @property
    def reason(self) -> str:
        """Why no request can be served now; "" where one can."""
        return self._reason

    async def watch(self) -> None:
        """Asks until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(INTERVAL_S)

    async def ask(self) -> None:
        """Asks once."""
        try:
            await self._draft.ask_model()
        except OutriderError as error:
            await self._set(error.message)
        except Exception as error:
            _logger.exception("the question for readiness failed")
            await self._set(f"internal error: {type(error).__name__}")
        else:
            await self._set("")

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
