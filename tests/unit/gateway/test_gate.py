"""Waiting for a place: in turn, with a deadline, and never losing one."""

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.admission import Admission
from gateway.gate import Gate
from outrider.protocol.errors import DeadlineExceeded, Draining, QueueFull, WaitTooLong
from outrider.telemetry.metrics import GatewayMetrics

FAR = 1e9


class Crowd:
    """A gate of one place with room for a few more to wait."""

    def __init__(self, max_queued: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        self.metrics = GatewayMetrics()
        self.admission = Admission(1, max_queued, max_queued_bytes=100)
        self.gate = Gate(self.admission, self.metrics, now)
        self.entered: list[str] = []

    def counts(self) -> tuple[int, int]:
        return self.admission.running_count, self.admission.queued_count

    def metric(self, name: str) -> float | None:
        return self.metrics.registry.get_sample_value(name)

    async def visit(self, name: str, release: asyncio.Event, tenant: str = "") -> None:
        async with self.gate.place(tenant, 10, FAR):
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
    assert (crowd.metric("outrider_queued_requests"), crowd.metric("outrider_queued_bytes")) == (
        1,
        10,
    )
    with pytest.raises(QueueFull):
        crowd.gate.check("", 10, FAR)
    with pytest.raises(QueueFull):
        async with crowd.gate.place("", 10, FAR):
            pass
    first.set()
    await settle()
    assert (crowd.entered, crowd.counts()) == (["a", "b"], (1, 0))
    second.set()
    await asyncio.gather(*tasks)
    assert crowd.counts() == (0, 0)
    assert crowd.metric("outrider_running_requests") == 0


@pytest.mark.asyncio
async def test_the_time_in_the_queue_is_shown_of_those_who_give_up_too() -> None:
    now = 100.0
    crowd = Crowd(now=lambda: now)
    release = asyncio.Event()
    first = asyncio.create_task(crowd.visit("a", release))
    await settle()
    waiting = asyncio.create_task(crowd.visit("b", release))
    await settle()
    assert crowd.metric("outrider_queue_seconds_sum") == 0
    now += 7.0
    waiting.cancel()
    release.set()
    await asyncio.gather(first, waiting, return_exceptions=True)
    assert crowd.metric("outrider_queue_seconds_count") == 2
    assert crowd.metric("outrider_queue_seconds_sum") == 7.0


@pytest.mark.asyncio
async def test_a_deadline_ends_the_wait() -> None:
    crowd = Crowd()
    release = asyncio.Event()
    task = asyncio.create_task(crowd.visit("a", release))
    await settle()
    with pytest.raises(DeadlineExceeded):
        async with crowd.gate.place("", 10, asyncio.get_running_loop().time()):
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


@pytest.mark.asyncio
async def test_one_that_has_to_give_way_is_told_and_another_waits_in_its_place() -> None:
    crowd = Crowd(max_queued=2)
    release = asyncio.Event()
    tasks = [asyncio.create_task(crowd.visit(name, release, "many")) for name in "abc"]
    await settle()
    tasks.append(asyncio.create_task(crowd.visit("d", release, "one")))
    await settle()
    with pytest.raises(QueueFull, match="needed for others"):
        await tasks.pop(2)
    assert crowd.counts() == (1, 2)
    release.set()
    await asyncio.gather(*tasks)
    assert (sorted(crowd.entered), crowd.counts()) == (["a", "b", "d"], (0, 0))


@pytest.mark.asyncio
async def test_a_closed_gate_lets_those_finish_who_are_there() -> None:
    crowd = Crowd()
    assert await crowd.gate.empty(0.0)
    release = asyncio.Event()
    tasks = [asyncio.create_task(crowd.visit(name, release)) for name in ("a", "b")]
    await settle()
    crowd.gate.close()
    with pytest.raises(Draining):
        crowd.gate.check("", 10, FAR)
    with pytest.raises(Draining):
        async with crowd.gate.place("", 10, FAR):
            pass
    assert not await crowd.gate.empty(0.0)
    release.set()
    assert await crowd.gate.empty(1.0)
    await asyncio.gather(*tasks)
    assert crowd.entered == ["a", "b"]


@pytest.mark.asyncio
async def test_who_would_wait_past_its_deadline_is_told_at_once() -> None:
    now = 100.0
    crowd = Crowd(max_queued=5, now=lambda: now)
    for _ in range(8):
        async with crowd.gate.place("", 10, now + 60):
            now += 2.0
    release = asyncio.Event()
    task = asyncio.create_task(crowd.visit("a", release))
    await settle()
    crowd.gate.check("", 10, now + 2.0)
    with pytest.raises(WaitTooLong):
        crowd.gate.check("", 10, now + 1.9)
    with pytest.raises(WaitTooLong):
        async with crowd.gate.place("", 10, now + 1.9):
            pass
    assert crowd.counts() == (1, 0)
    release.set()
    await task
