"""Clients that leave are counted, however many leave at once."""

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from outrider.evaluation import cancelling
from outrider.evaluation.cancelling import CancelRun
from outrider.v1 import generation_pb2

STREAMS, CANCELS = 8, 64


class Call:
    """A stream that ends at once, or never."""

    def __init__(self, ends: bool) -> None:
        self._ends = ends
        self.is_cancelled = False

    def __aiter__(self) -> "Call":
        return self

    async def __anext__(self) -> None:
        if self._ends:
            raise StopAsyncIteration
        await asyncio.Event().wait()

    def cancel(self) -> None:
        self.is_cancelled = True


def test_each_stream_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "LONGEST_STAY_S", 0.0)
    monkeypatch.setattr(cancelling, "WARM_UP", STREAMS)
    monkeypatch.setattr(cancelling, "PAUSE_S", 0.0)
    calls: list[Call] = []
    numbers = count()

    def generate(request: Any) -> Call:
        calls.append(Call(ends=next(numbers) % 4 == 0))
        return calls[-1]

    async def figures(names: Any) -> dict[str, float]:
        return {}

    workers: Any = SimpleNamespace(pids={}, figures=figures)
    stub: Any = SimpleNamespace(Generate=generate)
    run = CancelRun(workers, stub, [generation_pb2.GenerateRequest()], STREAMS, seed=0)
    remains = asyncio.run(run.run(CANCELS, lambda: None))
    assert (remains.cancels, remains.ended) == (CANCELS * 3 // 4, CANCELS // 4)
    assert all(call.is_cancelled for call in calls)
