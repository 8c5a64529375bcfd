"""Waiting for a place: in turn, with a deadline, and never losing one."""

import asyncio

import pytest

from gateway.admission import Admission
from gateway.gate import Gate
from outrider.protocol.errors import DeadlineExceeded, NoCapacity
from outrider.telemetry.metrics import GatewayMetrics

FAR = 1e9


class Crowd:
    """A gate of one place with room for one more to wait."""

    def __init__(self) -> None:
        self.metrics = GatewayMetrics()
        self.admission = Admission(1, 1)
        self.gate = Gate(self.admission, self.metrics)
        self.entered: list[str] = []

    def counts(self) -> tuple[int, int]:
        return self.admission.running_count, self.admission.queued_count

    async def visit(self, name: str, release: asyncio.Event) -> None:
        async with self.gate.place(FAR):
            self.entered.append(name)
            await release.wait()


async def settle() -> None:
    """Lets all tasks run as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_the_next_one_enters_when_a_place_is_free() -> None:
    crowd = Crowd()
    first, second = asyncio.Event(), asyncio.Event()
    tasks = [asyncio.create_task(crowd.visit("a", first))]
    await settle()
    tasks.append(asyncio.create_task(crowd.visit("b", second)))
    await settle()
    assert (crowd.entered, crowd.counts()) == (["a"], (1, 1))
    assert crowd.metrics.registry.get_sample_value("outrider_queued_requests") == 1
    with pytest.raises(NoCapacity):
        async with crowd.gate.place(FAR):
            pass
    first.set()
    await settle()
    assert (crowd.entered, crowd.counts()) == (["a", "b"], (1, 0))
    second.set()
    await asyncio.gather(*tasks)
    assert crowd.counts() == (0, 0)
    assert crowd.metrics.registry.get_sample_value("outrider_running_requests") == 0


@pytest.mark.asyncio
async def test_a_deadline_ends_the_wait() -> None:
    crowd = Crowd()
    release = asyncio.Event()
    task = asyncio.create_task(crowd.visit("a", release))
    await settle()
    with pytest.raises(DeadlineExceeded):
        async with crowd.gate.place(asyncio.get_running_loop().time()):
            pass
    assert crowd.counts() == (1, 0)
    release.set()
    await task


@pytest.mark.asyncio
async def test_one_cancelled_as_its_turn_comes_passes_the_place_on() -> None:
    crowd = Crowd()
    first, release = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(crowd.visit("a", first))
    await settle()
    waiting = asyncio.create_task(crowd.visit("b", release))
    await settle()
    waiting.cancel()
    running.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    assert (crowd.entered, crowd.counts()) == (["a"], (0, 0))
