"""Who waits, and whose turn is next: one line for each tenant, and the one with least goes first.

Policy: no clock, no await. A free place goes to the tenant with the fewest running requests; among
equals, to the one whose last turn is longest ago. So a tenant with a hundred waiting requests does
not delay another one's first. Where there is no room to wait, the tenant with the most waiting
gives way to one with less, its newest request first.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Turn(NamedTuple):
    """Whose turn it is.

    Args:
        ticket: The request.
        tenant: Whose it is.
    """

    ticket: int
    tenant: str


@dataclass(slots=True)
class _Line:
    """One tenant's waiting requests: their sizes by ticket, the oldest first."""

    last_turn: int
    sizes: OrderedDict[int, int] = field(default_factory=OrderedDict)
    size_bytes: int = 0


class FairQueue:
    """The waiting requests of all tenants.

    Args:
        max_count: Most of them, at least 0.
        max_bytes: Most that they hold together, bytes.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._lines: dict[str, _Line] = {}
        self._tenants: dict[int, str] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._tenants)

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._tenants

    @property
    def size_bytes(self) -> int:
        """Bytes that all of them hold."""
        return sum(line.size_bytes for line in self._lines.values())

    def push(self, ticket: int, tenant: str, size_bytes: int) -> None:
        """Lets a request wait; there must be room."""
        # One that comes anew stands behind those that wait: else, coming one by one, it would
        # always be first.
        line = self._lines.setdefault(tenant, _Line(self._turn))
        line.sizes[ticket] = size_bytes
        line.size_bytes += size_bytes
        self._tenants[ticket] = tenant

    def pop(self, running: Mapping[str, int]) -> Turn | None:
        """Takes out the request whose turn it is; None where nobody waits.

        Args:
            running: How many requests of each tenant run; 0 for those that are missing.
        """
        if not self._lines:
            return None

        def precedence(tenant: str) -> tuple[int, int]:
            return running.get(tenant, 0), self._lines[tenant].last_turn

        tenant = min(self._lines, key=precedence)
        line = self._lines[tenant]
        self._turn += 1
        line.last_turn = self._turn
        turn = Turn(next(iter(line.sizes)), tenant)
        self.remove(turn.ticket)
        return turn

    def remove(self, ticket: int) -> None:
        """Takes out a request that waits."""
        tenant = self._tenants.pop(ticket)
        line = self._lines[tenant]
        line.size_bytes -= line.sizes.pop(ticket)
        if not line.sizes:
            del self._lines[tenant]

    def displaced_by(self, tenant: str, size_bytes: int) -> list[int] | None:
        """Who would have to give way to one more request; changes nothing.

        Returns:
            Their tickets, none where there is room; None where the request may not wait, because
            nobody has more waiting than its own tenant would have.
        """
        if size_bytes > self._max_bytes or not self._max_count:
            return None
        counts = {name: len(line.sizes) for name, line in self._lines.items()}
        sizes = {name: line.size_bytes for name, line in self._lines.items()}
        counts[tenant] = counts.get(tenant, 0) + 1
        sizes[tenant] = sizes.get(tenant, 0) + size_bytes
        newest = {name: reversed(line.sizes.items()) for name, line in self._lines.items()}
        displaced: list[int] = []
        while True:
            if sum(counts.values()) > self._max_count:
                weights = counts
            elif sum(sizes.values()) > self._max_bytes:
                weights = sizes
            else:
                return displaced
            heaviest = max(weights, key=weights.__getitem__)
            if weights[heaviest] <= weights[tenant]:
                return None
            ticket, size = next(newest[heaviest])
            counts[heaviest] -= 1
            sizes[heaviest] -= size
            displaced.append(ticket)

    def ahead_of(self, tenant: str, running: Mapping[str, int]) -> int:
        """How many turns come before that of one more request of a tenant, if nobody else comes.

        As if running requests ended evenly: each other tenant has turns until it is level.
        """
        own = self._lines.get(tenant)
        own_count = len(own.sizes) if own is not None else 0
        level = running.get(tenant, 0) + own_count
        return own_count + sum(
            min(len(line.sizes), max(0, level - running.get(name, 0)))
            for name, line in self._lines.items()
            if name != tenant
        )
