"""Who runs, who waits, and who is sent away: bounded places and a bounded first-come queue.

Policy: no clock, no await; `gate.py` wakes those whose turn it is.
"""

from collections import OrderedDict

from outrider.protocol.errors import NoCapacity


class Admission:
    """The places of one gateway.

    Args:
        max_running: Most requests at once, at least 1.
        max_queued: Most requests that wait, at least 0.
    """

    def __init__(self, max_running: int, max_queued: int) -> None:
        self._max_running = max_running
        self._max_queued = max_queued
        self._running: set[int] = set()
        self._queue: OrderedDict[int, None] = OrderedDict()

    @property
    def running_count(self) -> int:
        """Requests that hold a place."""
        return len(self._running)

    @property
    def queued_count(self) -> int:
        """Requests that wait for one."""
        return len(self._queue)

    def arrive(self, ticket: int) -> bool:
        """A request comes in.

        Args:
            ticket: Its number, not in use.

        Returns:
            True where it runs at once, False where it waits until `leave` names it.

        Raises:
            NoCapacity: All places and the whole queue are taken.
        """
        if len(self._running) < self._max_running:
            self._running.add(ticket)
            return True
        if len(self._queue) >= self._max_queued:
            raise NoCapacity(
                f"all {self._max_running} places are taken and {self._max_queued} requests wait; "
                "try again later"
            )
        self._queue[ticket] = None
        return False

    def leave(self, ticket: int) -> int | None:
        """A request ends, or gives up waiting.

        Args:
            ticket: As given to `arrive`.

        Returns:
            The ticket that runs now in its place, if any.
        """
        if ticket in self._queue:
            del self._queue[ticket]
            return None
        self._running.remove(ticket)
        if not self._queue:
            return None
        successor, _ = self._queue.popitem(last=False)
        self._running.add(successor)
        return successor
