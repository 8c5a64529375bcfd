"""Several answers as one stream: who starts when, what comes in which order, who ends with whom."""

import asyncio
from contextlib import aclosing

import pytest

from gateway.choices import WAITING_EACH, interleave
from outrider.protocol.errors import WorkerUnavailable
from outrider.v1 import generation_pb2

pytestmark = pytest.mark.asyncio


class Worker:
    """Opens choices that say so many messages; one of them may fail, and all can be held."""

    def __init__(self, lengths: list[int], failing: int | None = None) -> None:
        self.lengths, self.failing = lengths, failing
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.said = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self, number: int):
        self.opened.append(number)
        try:
            for place in range(self.lengths[number]):
                await self.gate.wait()
                await asyncio.sleep(0)
                self.said += 1
                yield generation_pb2.GenerateResponse(text=f"{number}.{place}")
            if number == self.failing:
                raise WorkerUnavailable("gone")
        finally:
            self.closed.append(number)


async def test_every_message_comes_once_and_in_order_within_its_choice() -> None:
    worker = Worker([3, 5, 1])
    async with aclosing(interleave(3, worker.open)) as messages:
        texts = [(message.choice, message.text) async for message in messages]
    for number, length in enumerate(worker.lengths):
        said = [text for choice, text in texts if choice == number]
        assert said == [f"{number}.{place}" for place in range(length)]
    assert sorted(worker.closed) == [0, 1, 2]


async def test_the_others_wait_for_the_first_message_of_the_first() -> None:
    worker = Worker([2, 2, 2])
    worker.gate.clear()
    async with aclosing(interleave(3, worker.open)) as messages:
        first = asyncio.ensure_future(anext(messages))
        for _ in range(10):
            await asyncio.sleep(0)
        assert worker.opened == [0]
        worker.gate.set()
        assert (await first).text == "0.0"
        rest = [message.text async for message in messages]
    assert len(rest) == 5
    assert worker.opened == [0, 1, 2]


async def test_one_that_fails_ends_all_behind_what_was_said() -> None:
    worker = Worker([4, 1, 400], failing=1)

    async def read() -> None:
        async with aclosing(interleave(3, worker.open)) as messages:
            async for _ in messages:
                pass

    with pytest.raises(WorkerUnavailable, match="gone"):
        await read()
    assert sorted(worker.closed) == [0, 1, 2]
    assert worker.said < 400


async def test_a_reader_that_stops_reading_makes_all_wait_and_one_that_goes_ends_all() -> None:
    worker = Worker([400, 400])
    async with aclosing(interleave(2, worker.open)) as messages:
        await anext(messages)
        for _ in range(100):
            await asyncio.sleep(0)
        assert worker.said <= 2 * WAITING_EACH + 3
    assert sorted(worker.closed) == [0, 1]
