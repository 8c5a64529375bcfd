"""Load tests of the gateway against a stub worker: `python -m tests.load [NAME ...]`.

Each prints what was measured and the bound that it must keep; the exit status is 1 where one does
not. Times depend on the machine and on what else it does: close the rest.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tests.load.processes import service
from tests.load.streams import gaps, refusal_times, stalled_events, stalled_grpc

STREAMS, STALLED, HEALTHY = 1000, 200, 50
REPEATS = 2
ROOM = ("--max-running-requests", "4000", "--read-timeout-s", "600")


class Figure(NamedTuple):
    """One measurement.

    Args:
        text: What was measured.
        value: How much.
        bound: The most that it may be.
        unit: Of both.
    """

    text: str
    value: float
    bound: float
    unit: str


async def streams() -> list[Figure]:
    """Memory of the gateway with many streams at once."""
    figures = []
    for name, prompt in (("short prompts", "x"), ("prompts of 1,000 tokens", "x" * 1000)):
        async with service(1000, ROOM) as on:
            print(f"  before: {on.memory_mib():.0f} MiB")
            between = await gaps(on.grpc_port, STREAMS, 10, prompt)
            print(f"  gaps of 1 s: p50 {_at(between, 0.5):.3f} s, p99 {_at(between, 0.99):.3f} s")
            text = f"memory with {STREAMS} streams, {name}"
            figures.append(Figure(text, on.memory_mib("VmHWM"), 256, "MiB"))
    return figures


async def stalled() -> list[Figure]:
    """Gaps of healthy streams, alone and beside readers that stall; turn and turn about."""
    alone: list[float] = []
    beside: list[float] = []
    async with service(50, ROOM) as on:
        await gaps(on.grpc_port, HEALTHY, 100)  # the first ones are slow, and not counted
        for _ in range(REPEATS):
            alone += await gaps(on.grpc_port, HEALTHY, 100)
            half = STALLED // 2
            async with stalled_grpc(on.grpc_port, half):
                with stalled_events(on.http_port, half):
                    await on.wait_until_stalled()
                    beside += await gaps(on.grpc_port, HEALTHY, 100)
                    memory = on.memory_mib()
        alone.sort()
        beside.sort()
        for name, found in (("alone", alone), ("beside", beside)):
            shown = ", ".join(f"p{q} {_at(found, q / 100) * 1000:.1f} ms" for q in (50, 95, 99))
            print(f"  {HEALTHY} healthy streams {name}: {shown}")
        print(f"  stalled sessions had got to {_range(on.ended_after)} tokens; {memory:.0f} MiB")
    ratio = _at(beside, 0.99) / _at(alone, 0.99)
    return [Figure(f"p99 gap beside {STALLED} stalled readers, over alone", ratio, 1.2, "x")]


async def refusals() -> list[Figure]:
    """How fast a request is refused for which there is no room."""
    figures = []
    for name, queued in (("the queue is full", 0), ("the wait is too long", 100)):
        flags = ("--max-running-requests", "8", "--max-queued-requests", str(queued))
        async with service(50, flags) as on:
            # So that the gateway knows how long requests take: 2 s.
            await gaps(on.grpc_port, 8, 40)
            running = asyncio.create_task(gaps(on.grpc_port, 8 + min(queued, 8), 200))
            await asyncio.sleep(0.5)
            times = await refusal_times(on.grpc_port, 200, timeout_s=0.2)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            print(f"  {name}: {len(times)} refused")
            figures.append(Figure(f"p99 of refusals, {name}", _at(times, 0.99) * 1000, 50, "ms"))
    return figures


LOADS: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
    "streams": streams,
    "stalled": stalled,
    "refusals": refusals,
}


def main(names: Sequence[str]) -> int:
    """Runs those that are named, or all.

    Returns:
        Exit status: 1 where a bound was not kept, 2 where there is no such load.
    """
    if unknown := set(names) - LOADS.keys():
        print(f"no such load: {', '.join(sorted(unknown))}; there are {', '.join(LOADS)}")
        return 2
    figures: list[Figure] = []
    for name in names or LOADS:
        print(name)
        figures += asyncio.run(_run(LOADS[name]))
    for figure in figures:
        verdict = "kept" if figure.value <= figure.bound else "NOT KEPT"
        print(f"{figure.text}: {figure.value:.2f} {figure.unit} ({figure.bound:g}): {verdict}")
    return int(any(figure.value > figure.bound for figure in figures))


async def _run(load: Callable[[], Awaitable[list[Figure]]]) -> list[Figure]:
    return await load()


def _at(found: Sequence[float], share: float) -> float:
    return found[min(len(found) - 1, int(len(found) * share))]


def _range(found: Sequence[int]) -> str:
    return f"{min(found)} to {max(found)}" if found else "no"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
