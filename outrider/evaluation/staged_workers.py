"""A service of several workers that may be struck: each process by name, and when all are there.

Shell: owns the supervisor and its children while the context is open.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from outrider.evaluation.disturbance import Ending
from outrider.evaluation.metrics_page import read_figures
from outrider.evaluation.service import LOG_TAIL, ServiceFailed, free_ports
from outrider.supervision.child import ChildSpec
from outrider.supervision.ports import free_port
from outrider.supervision.restart_policy import RestartPolicy
from outrider.supervision.service_plan import ServiceOptions, plan_services
from outrider.supervision.supervisor import Supervisor

READY_TIMEOUT_S = 300.0
POLL_S = 0.1


class StagedWorkers:
    """A gateway, draft workers and verify workers; enter it to start them.

    Args:
        options: What to serve; its ports are replaced.
        endpoints: Of the verify workers.
        gateways: How many, at least 1, all before the same workers.
    """

    def __init__(
        self, options: ServiceOptions, endpoints: Sequence[str], gateways: int = 1
    ) -> None:
        ports = [free_ports(2) for _ in range(gateways)]
        self.addresses = [f"127.0.0.1:{grpc_port}" for grpc_port, _ in ports]
        self.lines: list[str] = []
        options = replace(options, grpc_port=ports[0][0], http_port=ports[0][1])
        first, *others = plan_services(options, endpoints, os.environ, _any_port)
        twins = [_twin(first, number, *pair) for number, pair in enumerate(ports[1:], start=2)]
        specs = [first, *twins, *others]
        # Each blow is meant, so none is one too many.
        policy = RestartPolicy(max_delay_s=1.0, max_crashes=1_000_000)
        self._supervisor = Supervisor(
            specs, policy, self._note_line, self.lines.append, on_end=self._note_end
        )
        pages = [http_port for _, http_port in ports]
        self._metrics_ports = [*pages, *(_metrics_port(spec) for spec in others)]
        self._counts = [(page, "outrider_draft_workers", options.draft_workers) for page in pages]
        self._counts += [
            (_metrics_port(spec), "outrider_verify_workers", options.verify_workers)
            for spec in others
            if spec.name.startswith("draft")
        ]
        self._running: asyncio.Task[int] | None = None
        self._leaving: dict[str, int] = {}  # ids of those that another process takes the place of
        self._ended: dict[str, asyncio.Future[int]] = {}

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._supervisor.run(), name="supervisor")
        try:
            await self.all_there()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of gateway and workers that run now, by name."""
        return self._supervisor.pids

    async def figures(self, names: Sequence[str]) -> dict[str, float]:
        """Figures of the metrics by name, each summed over all processes that have it."""
        pages = await asyncio.gather(
            *(asyncio.to_thread(read_figures, port) for port in self._metrics_ports)
        )
        return {name: sum(page.get(name, 0.0) for page in pages) for name in names}

    @property
    def workers(self) -> list[str]:
        """Names of the draft and verify workers that run now."""
        return sorted(name for name in self._supervisor.pids if not name.startswith("gateway"))

    def strike(self, victim: str, number: int) -> None:
        """Sends a worker a signal; one that is being started again is not there to get it."""
        pid = self._supervisor.pids.get(victim)
        if pid is not None:
            os.kill(pid, number)
            if number in (signal.SIGKILL, signal.SIGTERM):
                self._leaving[victim] = pid

    async def drain(self, victim: str, timeout_s: float) -> Ending:
        """Tells a process to end and waits until it has; what has not ended in time is killed."""
        ended = self._ended[victim] = asyncio.get_running_loop().create_future()
        start = time.monotonic()
        self.strike(victim, signal.SIGTERM)
        try:
            status: int | None = await asyncio.wait_for(asyncio.shield(ended), timeout_s)
        except TimeoutError:
            status = None
            self.strike(victim, signal.SIGKILL)
        return Ending(victim, status, time.monotonic() - start)

    async def all_there(self) -> None:
        """Returns when every draft worker knows every verify worker and the gateway knows them all.

        Raises:
            ServiceFailed: That does not come about.
        """
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await asyncio.to_thread(self._are_all_there):
                    if self._running is not None and self._running.done():
                        raise ServiceFailed(f"the workers ended:\n{self._written()}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ServiceFailed(f"the workers did not come back:\n{self._written()}") from None

    def _are_all_there(self) -> bool:
        pids = self._supervisor.pids
        is_replaced = all(pids.get(name, pid) != pid for name, pid in self._leaving.items())
        return is_replaced and all(
            read_figures(port).get(name) == count for port, name, count in self._counts
        )

    def _note_line(self, name: str, line: str) -> None:
        self.lines.append(f"{name}: {line}")

    def _note_end(self, name: str, status: int) -> None:
        ended = self._ended.pop(name, None)
        if ended is not None:
            ended.set_result(status)

    def _written(self) -> str:
        return "\n".join(self.lines)[-LOG_TAIL:]

    async def _stop(self) -> None:
        self._supervisor.request_stop()
        if self._running is not None:
            await self._running


def _twin(gateway: ChildSpec, number: int, grpc_port: int, http_port: int) -> ChildSpec:
    """Another gateway that differs in its ports only."""
    command = list(gateway.command)
    for flag, port in (("--grpc-port", grpc_port), ("--http-port", http_port)):
        command[command.index(flag) + 1] = str(port)
    return replace(gateway, name=f"{gateway.name}-{number}", command=tuple(command))


def _any_port(preferred: int, taken: frozenset[int]) -> int:
    return free_port(0, taken)


def _metrics_port(spec: ChildSpec) -> int:
    return int(spec.command[spec.command.index("--metrics-port") + 1])
