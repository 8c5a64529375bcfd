"""The draft workers, watched: found, asked again and again, left when they hang.

Shell around `worker_table.py`: owns one client per worker, and the clock. `watch` runs beside the
listeners; without it each question asks anew.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from gateway.draft_client import DraftClient, WorkerSilent
from gateway.served_model import ServedModel
from gateway.worker_table import Wish, WorkerTable, changes
from outrider.discovery import INTERVAL_S, Discovery
from outrider.protocol.errors import InternalFailure, OutriderError, WorkerUnavailable
from outrider.telemetry.metrics import GatewayMetrics

ASK_INTERVAL_S = 0.25
PARTING_S = 600.0  # what a worker that is no longer listed gets for its running streams

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A stream's place on a worker.

    Args:
        client: Of the worker.
        address: Of the worker.
        method: Draft method there; "": the worker's own choice.
    """

    client: DraftClient
    address: str
    method: str


class DraftWorkers:
    """All draft workers of a gateway; enter it to use it.

    Args:
        discovery: Finds them.
        open_client: Makes the client of an address.
        metrics: Shows how many are known, answer and rest.
    """

    def __init__(
        self,
        discovery: Discovery,
        open_client: Callable[[str], DraftClient],
        metrics: GatewayMetrics,
    ) -> None:
        self.discovery = discovery
        self._open_client = open_client
        self._metrics = metrics
        self._table = WorkerTable()
        self._clients: dict[str, DraftClient] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._watches.values(), *self._closing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    @property
    def addresses(self) -> list[str]:
        """Those that are known, whether they answer or not."""
        return list(self._clients)

    @property
    def problem(self) -> str:
        """Why no request can be served now; "" where one can."""
        problem = self._table.problem
        return problem.message if problem is not None else ""

    async def model(self) -> ServedModel:
        """What is served, as last heard; asks where nothing is known.

        Raises:
            WorkerUnavailable: No worker answers, or there is no verify worker behind it.
            Mismatch: None of those that answer fits the gateway's model folder.
        """
        if self._table.model is None:
            await self.ask()
        model = self._table.model
        if model is None:
            assert self._table.problem is not None
            raise self._table.problem.with_traceback(None)
        return model

    async def ask(self) -> None:
        """Looks for workers, and asks each of them once."""
        await self._discover()
        await asyncio.gather(*(self._ask(address) for address in list(self._clients)))

    async def watch(self) -> None:
        """Keeps looking and asking until cancelled."""
        while True:
            await self._discover()
            for address in self._clients:
                if address not in self._watches:
                    self._watches[address] = asyncio.create_task(
                        self._keep_asking(address), name=f"ask-{address}"
                    )
            await asyncio.sleep(INTERVAL_S)

    def renew(self) -> None:
        """Connects to all of them anew, as when there is a new certificate."""
        for client in self._clients.values():
            client.renew()

    async def changed(self) -> None:
        """Returns when anything was heard of any worker."""
        await self._change.wait()

    @asynccontextmanager
    async def place(self, wish: Wish, until: float) -> AsyncIterator[Place]:
        """A place for a stream, counted as its worker's load while the block runs.

        Args:
            wish: What the worker must have.
            until: Loop time until which to wait for one, seconds.

        Raises:
            OutriderError: There was none; or from the block, where `WorkerUnavailable` makes the
                worker rest.
        """
        now = asyncio.get_running_loop().time
        placement = self._table.choose(wish, now())
        while placement is None:
            try:
                async with asyncio.timeout_at(until):
                    await self.changed()
            except TimeoutError:
                raise self._lack(wish) from None
            placement = self._table.choose(wish, now())
        address = placement.address
        self._table.began(address)
        try:
            yield Place(self._clients[address], address, placement.method)
        except WorkerUnavailable:
            self._table.failed(address, now())
            raise
        finally:
            self._table.ended(address)

    def worked(self, place: Place) -> None:
        """A stream got on at its place."""
        self._table.worked(place.address)

    def _lack(self, wish: Wish) -> OutriderError:
        model = self._table.model
        if model is not None and model.target_fingerprint != wish.target_fingerprint:
            return WorkerUnavailable(
                "the model was replaced while the answer was being written; ask again"
            )
        if self._table.problem is not None:
            return self._table.problem.with_traceback(None)
        return WorkerUnavailable("no draft worker could take the stream")

    async def _discover(self) -> None:
        joined, left = changes(list(self._clients), await self.discovery.find())
        for address in joined:
            self._clients[address] = self._open_client(address)
            self._table.join(address)
        for address in left:
            self._part_with(address)
        if joined or left:
            self._tell()

    def _part_with(self, address: str) -> None:
        """Its running streams may end there; the connection is closed behind them."""
        self._table.leave(address)
        if watch := self._watches.pop(address, None):
            watch.cancel()
        closing = asyncio.create_task(self._clients.pop(address).close(PARTING_S))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _keep_asking(self, address: str) -> None:
        while True:
            await self._ask(address)
            await asyncio.sleep(ASK_INTERVAL_S)

    async def _ask(self, address: str) -> None:
        client = self._clients[address]
        try:
            model = await client.describe()
        except OutriderError as error:
            self._silent(address, error)
            if isinstance(error, WorkerSilent):
                client.abandon()
        except Exception as error:
            _logger.exception("the question to the draft worker at %s failed", address)
            self._silent(address, InternalFailure(f"internal error: {type(error).__name__}"))
        else:
            self._table.answered(address, model)
        self._tell()

    def _silent(self, address: str, problem: OutriderError) -> None:
        if self._table.silent(address, problem):
            _logger.warning("draft worker %s cannot be used: %s", address, problem.message)

    def _tell(self) -> None:
        now = asyncio.get_running_loop().time()
        self._metrics.known_draft_workers.set(len(self._clients))
        self._metrics.draft_workers.set(self._table.usable_count())
        self._metrics.resting_draft_workers.set(self._table.resting_count(now))
        self._change.set()
        self._change = asyncio.Event()
