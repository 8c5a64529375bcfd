"""What the gateway knows of its draft workers, and which of them a stream goes to.

Policy: no clock, no sockets; times are arguments. A worker is used while it answers; one at which
streams fail though it answers rests, each time for longer: others are preferred to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gateway.served_model import ServedModel
from outrider.protocol.affinity import choose_worker
from outrider.protocol.errors import OutriderError, WorkerUnavailable

PLAIN = "none"  # the method that every worker can run
FIRST_REST_S = 0.25
LONGEST_REST_S = 5.0


class Placement(NamedTuple):
    """Where a stream goes.

    Args:
        address: The worker.
        method: Draft method there; "": the worker's own choice.
    """

    address: str
    method: str


class Wish(NamedTuple):
    """What a stream needs of a worker.

    Args:
        key: See `affinity_key`.
        method: Draft method that was asked for; "": any.
        target_fingerprint: The only target whose text it may go on with.
    """

    key: bytes
    method: str
    target_fingerprint: str


@dataclass(slots=True)
class DraftWorkerEntry:
    """One draft worker.

    Args:
        model: What it serves; None while it does not answer.
        problem: Why it does not; None where it has not been asked yet.
        streams: That run there now.
        failures: Streams that failed there in a row.
        rests_until: Others go before it until then, seconds.
    """

    model: ServedModel | None = None
    problem: OutriderError | None = None
    streams: int = 0
    failures: int = 0
    rests_until: float = float("-inf")


class WorkerTable:
    """All draft workers by address; starts empty."""

    def __init__(self) -> None:
        self._entries: dict[str, DraftWorkerEntry] = {}

    def __contains__(self, address: str) -> bool:
        return address in self._entries

    def join(self, address: str) -> None:
        """Adds a worker that nothing is known of."""
        self._entries.setdefault(address, DraftWorkerEntry())

    def leave(self, address: str) -> None:
        """Forgets a worker; its streams may go on, but no new ones go there."""
        self._entries.pop(address, None)

    def answered(self, address: str, model: ServedModel) -> None:
        """A worker said what it serves."""
        if entry := self._entries.get(address):
            entry.model, entry.problem = model, None

    def silent(self, address: str, problem: OutriderError) -> bool:
        """A worker did not answer, or cannot be used.

        Returns:
            True where that is news.
        """
        entry = self._entries.get(address)
        if entry is None:
            return False
        is_known = entry.problem is not None and entry.problem.message == problem.message
        entry.model, entry.problem = None, problem
        return not is_known

    def began(self, address: str) -> None:
        """A stream was placed on a worker."""
        if entry := self._entries.get(address):
            entry.streams += 1

    def worked(self, address: str) -> None:
        """A stream got on at a worker."""
        if entry := self._entries.get(address):
            entry.failures = 0

    def ended(self, address: str) -> None:
        """A stream is no longer on a worker, however that came."""
        if entry := self._entries.get(address):
            entry.streams = max(0, entry.streams - 1)

    def failed(self, address: str, now: float) -> None:
        """A stream could not go on at a worker, which now rests for a while."""
        if entry := self._entries.get(address):
            rest_s = min(FIRST_REST_S * 2**entry.failures, LONGEST_REST_S)
            entry.failures += 1
            entry.rests_until = now + rest_s

    @property
    def model(self) -> ServedModel | None:
        """What is served by those that answer, with the methods of all; None where none does.

        Where they serve different targets, that of the first one counts.
        """
        models = [entry.model for entry in self._entries.values() if entry.model is not None]
        if not models:
            return None
        same = [one for one in models if one.target_fingerprint == models[0].target_fingerprint]
        methods = dict.fromkeys(method for one in same for method in one.methods)
        return replace(models[0], methods=tuple(methods))

    @property
    def problem(self) -> OutriderError | None:
        """Why no request can be served; None where one can."""
        if self.model is not None:
            return None
        found = [entry.problem for entry in self._entries.values() if entry.problem is not None]
        return found[0] if found else WorkerUnavailable("no draft worker is known")

    def usable_count(self) -> int:
        """Workers that answer."""
        return sum(entry.model is not None for entry in self._entries.values())

    def resting_count(self, now: float) -> int:
        """Of these, workers that others go before at the moment."""
        return sum(
            entry.model is not None and entry.rests_until > now for entry in self._entries.values()
        )

    def choose(self, wish: Wish, now: float) -> Placement | None:
        """Finds a worker for a stream.

        One that can run the wanted method goes before one that cannot, where the stream goes on
        with plain decoding; one that rests is taken where there is no other.

        Returns:
            None where there is none at the moment.
        """
        fitting = [address for address, entry in self._entries.items() if _fits(entry, wish)]
        able = [address for address in fitting if self._can(address, wish.method)]
        found = able or fitting
        rested = [address for address in found if self._entries[address].rests_until <= now]
        loads = {address: self._entries[address].streams for address in rested or found}
        address = choose_worker(loads, wish.key)
        if address is None:
            return None
        return Placement(address, wish.method if able else PLAIN)

    def _can(self, address: str, method: str) -> bool:
        model = self._entries[address].model
        return not method or (model is not None and method in model.methods)


def changes(known: Sequence[str], found: Sequence[str]) -> tuple[list[str], list[str]]:
    """Which addresses joined and which left, in order."""
    joined = [address for address in dict.fromkeys(found) if address not in known]
    return joined, [address for address in known if address not in found]


def _fits(entry: DraftWorkerEntry, wish: Wish) -> bool:
    return entry.model is not None and entry.model.target_fingerprint == wish.target_fingerprint
