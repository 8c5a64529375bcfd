"""Who runs, who waits, and who is sent away: bounded places, and a bounded queue that is fair.

Policy: no clock, no await; `gate.py` wakes those whose turn it is.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gateway.fair_queue import FairQueue
from gateway.service_rate import ServiceRate
from outrider.protocol.errors import QueueFull, WaitTooLong

LEAST_RETRY_S = 1.0


class Arrival(NamedTuple):
    """What becomes of a request that came in.

    Args:
        runs: True: at once; False: it waits until `leave` names it.
        displaced: Tickets of waiting requests that had to give way; they have left.
    """

    runs: bool
    displaced: Sequence[int] = ()


class _Place(NamedTuple):
    tenant: str
    since: float


class Admission:
    """The places of one gateway.

    Args:
        max_running: Most requests at once, at least 1.
        max_queued: Most requests that wait, at least 0.
        max_queued_bytes: Most that these hold together, bytes.
    """

    def __init__(self, max_running: int, max_queued: int, max_queued_bytes: int) -> None:
        self._max_running = max_running
        self._running: dict[int, _Place] = {}
        self._running_of: Counter[str] = Counter()
        self._queue = FairQueue(max_queued, max_queued_bytes)
        self._rate = ServiceRate(max_running)

    @property
    def running_count(self) -> int:
        """Requests that hold a place."""
        return len(self._running)

    @property
    def queued_count(self) -> int:
        """Requests that wait for one."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes that these hold."""
        return self._queue.size_bytes

    def check(self, tenant: str, size_bytes: int, time_left_s: float) -> Sequence[int]:
        """Whether a request may come in now; changes nothing.

        Args:
            tenant: Whose it is.
            size_bytes: What it holds while it waits.
            time_left_s: Until its deadline.

        Returns:
            Tickets of waiting requests that would have to give way.

        Raises:
            QueueFull: All places are taken, and so is the tenant's share of the queue.
            WaitTooLong: Its deadline would pass before its turn.
        """
        if len(self._running) < self._max_running:
            return ()
        displaced = self._queue.displaced_by(tenant, size_bytes)
        if displaced is None:
            raise self._queue_full()
        wait_s = self._rate.wait_s(self._queue.ahead_of(tenant, self._running_of))
        if wait_s is not None and wait_s > time_left_s:
            raise WaitTooLong(
                f"a place is to be expected in {wait_s:.1f} s, and the deadline is in "
                f"{time_left_s:.1f} s",
                max(LEAST_RETRY_S, wait_s - time_left_s),
            )
        return displaced

    def arrive(
        self, ticket: int, tenant: str, size_bytes: int, time_left_s: float, now: float
    ) -> Arrival:
        """A request comes in.

        Args:
            ticket: Its number, not in use.
            tenant: As for `check`.
            size_bytes: As for `check`.
            time_left_s: As for `check`.
            now: Seconds.

        Raises:
            NoCapacity: As for `check`.
        """
        displaced = self.check(tenant, size_bytes, time_left_s)
        if len(self._running) < self._max_running:
            self._run(ticket, tenant, now)
            return Arrival(runs=True)
        for other in displaced:
            self._queue.remove(other)
        self._queue.push(ticket, tenant, size_bytes)
        return Arrival(runs=False, displaced=displaced)

    def leave(self, ticket: int, now: float) -> int | None:
        """A request ends or gives up waiting; one that was displaced has left before.

        Args:
            ticket: As given to `arrive`.
            now: Seconds.

        Returns:
            The ticket that runs now in its place, if any.
        """
        if ticket in self._queue:
            self._queue.remove(ticket)
            return None
        place = self._running.pop(ticket, None)
        if place is None:
            return None
        self._rate.ended(now - place.since)
        self._running_of[place.tenant] -= 1
        if not self._running_of[place.tenant]:
            del self._running_of[place.tenant]
        turn = self._queue.pop(self._running_of)
        if turn is None:
            return None
        self._run(turn.ticket, turn.tenant, now)
        return turn.ticket

    def _run(self, ticket: int, tenant: str, now: float) -> None:
        self._running[ticket] = _Place(tenant, now)
        self._running_of[tenant] += 1

    def _queue_full(self) -> QueueFull:
        wait_s = self._rate.wait_s(0)
        return QueueFull(
            f"all {self._max_running} places are taken and {len(self._queue)} requests wait; "
            "try again later",
            max(LEAST_RETRY_S, wait_s or 0.0),
        )
