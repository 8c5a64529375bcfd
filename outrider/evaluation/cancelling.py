"""Clients that leave at random moments, and what they leave behind: blocks, requests, memory.

Shell: owns the streams and the clock.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import grpc.aio

from outrider.evaluation.client import AskFailed, Stub
from outrider.evaluation.staged_workers import StagedWorkers
from outrider.idle_memory import IDLE_S
from outrider.v1 import generation_pb2

LONGEST_STAY_S = 0.4
WARM_UP = 1000  # streams before memory is looked at first: allocators and caches fill up once
CLEAN_TIMEOUT_S = 1.0
PAUSE_S = IDLE_S + 1.0  # before memory is looked at: workers give back what is free in a pause
POLL_S = 0.02
MIB = 2**20
LEFT_BEHIND = ("outrider_kv_blocks_in_use", "outrider_running_requests", "outrider_sessions")


@dataclass(frozen=True, slots=True)
class Remains:
    """What many cancelled streams left behind.

    Args:
        cancels: Streams that were cancelled; the others had ended before.
        ended: Those.
        clean_s: How long it took until nothing was in use any more, seconds; None: longer than
            `CLEAN_TIMEOUT_S`.
        left: What was in use then, by metric.
        grown_mib: By how much each process's resident memory grew, MiB; empty where it cannot be
            seen.
    """

    cancels: int
    ended: int
    clean_s: float | None
    left: Mapping[str, float]
    grown_mib: Mapping[str, float]


class CancelRun:
    """Cancels streams.

    Args:
        workers: The service.
        stub: The service.
        requests: Asked in turn, again and again.
        streams: At a time.
        seed: Of the moments.
    """

    def __init__(
        self,
        workers: StagedWorkers,
        stub: Stub,
        requests: Sequence[generation_pb2.GenerateRequest],
        streams: int,
        seed: int,
    ) -> None:
        self._workers, self._stub, self._streams = workers, stub, streams
        self._requests: Iterator[generation_pb2.GenerateRequest] = cycle(requests)
        self._draws = random.Random(seed)

    async def run(self, count: int, on_cancel: Callable[[], None]) -> Remains:
        """Cancels so many streams.

        Args:
            count: At least 1.
            on_cancel: Told of each.

        Raises:
            AskFailed: A stream failed.
        """
        await self._cancel_many(WARM_UP, lambda: None)
        await settle(self._workers, CLEAN_TIMEOUT_S)
        before = await self._resident_mib()
        cancels = await self._cancel_many(count, on_cancel)
        clean_s, left = await settle(self._workers, CLEAN_TIMEOUT_S)
        after = await self._resident_mib()
        grown = {name: after[name] - before[name] for name in before if name in after}
        return Remains(cancels, count - cancels, clean_s, left, grown)

    async def _resident_mib(self) -> dict[str, float]:
        await asyncio.sleep(PAUSE_S)
        return resident_mib(self._workers.pids)

    async def _cancel_many(self, count: int, on_cancel: Callable[[], None]) -> int:
        numbers = iter(range(count))
        cancelled = 0

        async def run_lane() -> None:
            nonlocal cancelled
            for _ in numbers:
                was_cut = await self._cancel_one()  # first: other lanes count meanwhile
                cancelled += was_cut
                on_cancel()

        await asyncio.gather(*(run_lane() for _ in range(self._streams)))
        return cancelled

    async def _cancel_one(self) -> bool:
        """Opens a stream and leaves it after a while; False where it had ended."""
        call = self._stub.Generate(next(self._requests))
        try:
            async with asyncio.timeout(self._draws.uniform(0.0, LONGEST_STAY_S)):
                async for _ in call:
                    pass
        except TimeoutError:
            return True
        except grpc.aio.AioRpcError as error:
            raise AskFailed(f"{error.code().name}: {error.details()}") from error
        finally:
            call.cancel()
        return False


async def settle(workers: StagedWorkers, timeout_s: float) -> tuple[float | None, dict[str, float]]:
    """Waits until nothing is in use.

    Returns:
        How long that took, seconds, None where it took too long; and what was in use then.
    """
    start = time.monotonic()
    while True:
        left = await workers.figures(LEFT_BEHIND)
        took_s = time.monotonic() - start
        if not any(left.values()):
            return took_s, left
        if took_s > timeout_s:
            return None, left
        await asyncio.sleep(POLL_S)


def resident_mib(pids: Mapping[str, int]) -> dict[str, float]:
    """Resident memory of processes, by name; none where the system has no /proc."""
    found = {}
    for name, pid in pids.items():
        status = Path(f"/proc/{pid}/status")
        if status.exists():
            line = next(one for one in status.read_text().splitlines() if one.startswith("VmRSS"))
            found[name] = int(line.split()[1]) * 1024 / MIB
    return found
