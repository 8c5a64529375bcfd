"""Waits at the door: keeps a future for each queued request and a gauge of both crowds.

Shell around `admission.py`, which takes the decisions.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count

from gateway.admission import Admission
from outrider.protocol.errors import DeadlineExceeded, Draining, QueueFull
from outrider.telemetry.metrics import GatewayMetrics


class Gate:
    """Lets requests in as places become free.

    Args:
        admission: Decides.
        metrics: Shows how many run and wait, and how long they waited.
        now: Seconds, on a clock that never goes back; that of the event loop's deadlines.
    """

    def __init__(
        self,
        admission: Admission,
        metrics: GatewayMetrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admission = admission
        self._metrics = metrics
        self._now = now
        self._tickets = count()
        self._waiting: dict[int, asyncio.Future[bool]] = {}  # True: it runs; False: it gave way
        self._is_closed = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @property
    def counts(self) -> tuple[int, int]:
        """Requests that run, and those that wait."""
        return self._admission.running_count, self._admission.queued_count

    def close(self) -> None:
        """From now on for ever nobody new is let in; who runs or waits stays."""
        self._is_closed = True

    async def empty(self, timeout_s: float) -> bool:
        """Waits until nobody runs or waits; False where somebody still does after that time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_empty.wait()
        except TimeoutError:
            return False
        return True

    def check(self, tenant: str, size_bytes: int, deadline: float) -> None:
        """Refuses a request that `place` would refuse at once, before any work is put into it.

        Args:
            tenant: Whose it is.
            size_bytes: What it holds while it waits.
            deadline: Loop time until which it may take, seconds.

        Raises:
            NoCapacity: The queue is full, or too long for the deadline.
            Draining: The gate is closed.
        """
        self._check_open()
        self._admission.check(tenant, size_bytes, deadline - self._now())

    @asynccontextmanager
    async def place(self, tenant: str, size_bytes: int, deadline: float) -> AsyncIterator[None]:
        """Holds a place while the block runs.

        Args:
            tenant: As for `check`.
            size_bytes: As for `check`.
            deadline: As for `check`; it waits no longer.

        Raises:
            NoCapacity: As for `check`, or it had to give way while it waited.
            DeadlineExceeded: No place became free in time.
            Draining: As for `check`.
        """
        ticket = next(self._tickets)
        self._check_open()
        now = self._now()
        arrival = self._admission.arrive(ticket, tenant, size_bytes, deadline - now, now)
        for other in arrival.displaced:
            self._waiting.pop(other).set_result(False)
        try:
            self._show()
            if arrival.runs:
                self._metrics.queue_seconds.observe(0.0)
            else:
                await self._wait(ticket, deadline)
            yield
        finally:
            self._waiting.pop(ticket, None)
            successor = self._admission.leave(ticket, self._now())
            if successor is not None:
                self._waiting.pop(successor).set_result(True)
            self._show()

    async def _wait(self, ticket: int, deadline: float) -> None:
        since = self._now()
        turn = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(deadline):
                may_run = await asyncio.shield(turn)
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed while the request was queued") from None
        finally:
            self._metrics.queue_seconds.observe(self._now() - since)
        if not may_run:
            raise QueueFull("the queue was needed for others, who have less in it; try again later")

    def _check_open(self) -> None:
        if self._is_closed:
            raise Draining("this gateway is about to stop and takes no new requests")

    def _show(self) -> None:
        admission = self._admission
        self._metrics.running_requests.set(admission.running_count)
        self._metrics.queued_requests.set(admission.queued_count)
        self._metrics.queued_bytes.set(admission.queued_bytes)
        if admission.running_count or admission.queued_count:
            self._is_empty.clear()
        else:
            self._is_empty.set()
