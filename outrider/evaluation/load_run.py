"""Puts load on a service over its public API: so many streams at a time, or so many requests a
second whether it keeps up or not. Owns the order and the clock; summing up is `load.py`'s."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Protocol

from outrider.evaluation.client import (
    Answer,
    AnyStub,
    AskFailed,
    ask,
    ask_all,
    chat_request,
)
from outrider.evaluation.load import Load, Point, StreamTimes, point_of
from outrider.evaluation.prompts import Prompt
from outrider.v1 import generation_pb2

RequestOf = Callable[[str, str, int], generation_pb2.GenerateRequest]


class KvWatch(Protocol):
    """Looks at the KV pool while a point runs."""

    def begin(self) -> None:
        """Starts looking."""

    def peak(self) -> float | None:
        """Stops, and says how much of the pool was in use at most, 0 to 1; None: not known."""


class LoadRun:
    """One load test.

    Args:
        stub: The service.
        methods: Draft methods; they take turns at each load.
        prompts: Asked in turn, again from the first where there are too few.
        max_new_tokens: Most tokens of an answer.
        kv: Watches the KV pool.
        seed: Of the arrivals of an open loop.
        request_of: Makes the request of a text, a method and a number of tokens.
    """

    def __init__(
        self,
        stub: AnyStub,
        methods: Sequence[str],
        prompts: Sequence[Prompt],
        max_new_tokens: int,
        kv: KvWatch,
        seed: int = 0,
        request_of: RequestOf = chat_request,
    ) -> None:
        self._request_of = request_of
        self.problems: list[str] = []  # why requests of open loops were not answered
        self._stub, self._methods, self._prompts = stub, methods, prompts
        self._max_new_tokens, self._kv, self._seed = max_new_tokens, kv, seed

    async def run(
        self, loads: Sequence[Load], requests: int, on_point: Callable[[Point], None]
    ) -> list[Point]:
        """Measures all loads.

        Args:
            loads: In this order.
            requests: Of each point, at least; a load of many streams has twice as many as those.
            on_point: Told of each point as it ends.

        Raises:
            AskFailed: A request of a closed loop failed.
        """
        points = []
        for method in self._methods:  # the first request of a method may pay for caches
            await ask(self._stub, self._requests(method, 1)[0])
        for load in loads:
            for method in self._methods:
                point = await self._measure(method, load, max(requests, 2 * load.streams))
                points.append(point)
                on_point(point)
        return points

    async def _measure(self, method: str, load: Load, count: int) -> Point:
        requests = self._requests(method, count)
        for request in requests:  # no point finds in the prefix cache what another one has read
            request.cache_salt = f"{method}, {load.name}"
        self._kv.begin()
        start = time.monotonic()
        streams: list[StreamTimes] = []

        def keep(answer: Answer) -> None:
            streams.append(
                StreamTimes(
                    answer.asked_s - start,
                    tuple(one - start for one in answer.message_s),
                    answer.message_tokens,
                    answer.report.rounds,
                )
            )

        refused = 0
        if load.streams:
            await ask_all(self._stub, requests, load.streams, lambda _, answer: keep(answer))
        else:
            refused = await self._arrive(requests, load.rate, keep)
        return point_of(method, load, streams, refused, self._kv.peak())

    async def _arrive(
        self,
        requests: Sequence[generation_pb2.GenerateRequest],
        rate: float,
        keep: Callable[[Answer], None],
    ) -> int:
        """An open loop with exponential gaps; returns how many requests were not answered."""
        draws = random.Random(self._seed)
        refused = 0

        async def run_one(request: generation_pb2.GenerateRequest) -> None:
            nonlocal refused
            try:
                keep(await ask(self._stub, request))
            except AskFailed as error:
                refused += 1
                self.problems.append(str(error))

        async with asyncio.TaskGroup() as streams:
            for request in requests:
                streams.create_task(run_one(request))
                await asyncio.sleep(draws.expovariate(rate))
        return refused

    def _requests(self, method: str, count: int) -> list[generation_pb2.GenerateRequest]:
        prompts = islice(cycle(self._prompts), count)
        return [self._request_of(one.text, method, self._max_new_tokens) for one in prompts]
