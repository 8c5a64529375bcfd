"""Runs streams while workers are struck down; what came is compared in `disturbance.py`."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count

from outrider.evaluation.client import Answer, AskFailed, Stub, ask, ask_all
from outrider.evaluation.disturbance import GRACE_S, Blow, Ending, StreamRecord, Strike
from outrider.evaluation.staged_workers import StagedWorkers
from outrider.v1 import generation_pb2

STOPPED_S = 3.0  # how long a stopped worker hangs before it goes on
HANG_S = 120.0  # a stream that takes longer hangs


async def undisturbed(
    stub: Stub,
    requests: Sequence[generation_pb2.GenerateRequest],
    streams: int,
    on_done: Callable[[], None],
) -> list[tuple[int, ...]]:
    """Ids of each request while nothing happens.

    Raises:
        AskFailed: A stream failed all the same.
    """
    expected: dict[int, tuple[int, ...]] = {}

    def keep(index: int, answer: Answer) -> None:
        expected[index] = answer.token_ids
        on_done()

    await ask_all(stub, requests, streams, keep)
    return [expected[index] for index in range(len(requests))]


class DisturbRun:
    """One disturbed run.

    Args:
        workers: Are struck.
        stub: The service that they make up.
        requests: Asked in turn, again and again.
        streams: At a time.
    """

    def __init__(
        self,
        workers: StagedWorkers,
        stub: Stub,
        requests: Sequence[generation_pb2.GenerateRequest],
        streams: int,
    ) -> None:
        self._workers, self._stub = workers, stub
        self._requests, self._streams = requests, streams
        self._records: list[StreamRecord] = []
        self.endings: list[Ending] = []  # of those that were told to end
        self._numbers = count()
        self._is_over = False

    async def run(
        self, blows: Sequence[Blow], on_blow: Callable[[Blow], None]
    ) -> tuple[list[tuple[Blow, float]], list[StreamRecord]]:
        """Strikes until all blows have fallen, then lets the streams end.

        Args:
            blows: In this order.
            on_blow: Told of each when all workers are there again.

        Returns:
            The blows with the times at which they fell, and all streams.

        Raises:
            ServiceFailed: A struck worker did not come back.
        """
        lanes = [asyncio.create_task(self._run_lane()) for _ in range(self._streams)]
        fallen = []
        try:
            for blow in blows:
                await asyncio.sleep(blow.delay_s)
                fallen.append((blow, time.monotonic()))
                await self._strike(blow)
                await self._workers.all_there()
                on_blow(blow)
        except BaseException:
            for lane in lanes:
                lane.cancel()
            raise
        finally:
            self._is_over = True
            await asyncio.gather(*lanes, return_exceptions=True)
        return fallen, self._records

    async def _strike(self, blow: Blow) -> None:
        if blow.strike is Strike.KILL:
            self._workers.strike(blow.victim, signal.SIGKILL)
            return
        if blow.strike is Strike.TERM:
            self.endings.append(await self._workers.drain(blow.victim, 2 * GRACE_S))
            return
        self._workers.strike(blow.victim, signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        self._workers.strike(blow.victim, signal.SIGCONT)

    async def _run_lane(self) -> None:
        while not self._is_over:
            await self._run_stream(next(self._numbers) % len(self._requests))

    async def _run_stream(self, index: int) -> None:
        asked_s = time.monotonic()
        try:
            async with asyncio.timeout(HANG_S):
                answer = await ask(self._stub, self._requests[index])
        except AskFailed as error:
            self._records.append(StreamRecord(index, asked_s, problem=str(error)))
        except TimeoutError:
            self._records.append(StreamRecord(index, asked_s, problem=f"no end in {HANG_S:g} s"))
        else:
            self._records.append(
                StreamRecord(
                    index,
                    answer.asked_s,
                    answer.message_s,
                    answer.token_ids,
                    answer.report.failovers,
                )
            )
