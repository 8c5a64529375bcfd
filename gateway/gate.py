"""Waits at the door: keeps a future for each queued request and a gauge of both crowds.

Shell around `admission.py`, which takes the decisions.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from gateway.admission import Admission
from outrider.protocol.errors import DeadlineExceeded
from outrider.telemetry.metrics import GatewayMetrics


class Gate:
    """Lets requests in as places become free.

    Args:
        admission: Decides.
        metrics: Shows how many run and wait.
    """

    def __init__(self, admission: Admission, metrics: GatewayMetrics) -> None:
        self._admission = admission
        self._metrics = metrics
        self._tickets = count()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def place(self, deadline: float) -> AsyncIterator[None]:
        """Holds a place while the block runs.

        Args:
            deadline: Loop time until which to wait, seconds.

        Raises:
            NoCapacity: The queue is full.
            DeadlineExceeded: No place became free in time.
        """
        ticket = next(self._tickets)
        runs_at_once = self._admission.arrive(ticket)
        try:
            self._show()
            if not runs_at_once:
                await self._wait(ticket, deadline)
            yield
        finally:
            self._waiting.pop(ticket, None)
            successor = self._admission.leave(ticket)
            if successor is not None:
                self._waiting.pop(successor).set_result(None)
            self._show()

    async def _wait(self, ticket: int, deadline: float) -> None:
        turn = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(turn)
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed while the request was queued") from None

    def _show(self) -> None:
        self._metrics.running_requests.set(self._admission.running_count)
        self._metrics.queued_requests.set(self._admission.queued_count)
