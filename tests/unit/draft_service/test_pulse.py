"""An event loop that gets on, and one that does not."""

import asyncio

import pytest

from draft_service.pulse import Pulse


@pytest.mark.asyncio
async def test_a_loop_that_does_not_beat_is_not_live() -> None:
    times = [0.0]
    pulse = Pulse(10.0, lambda: times[-1])
    times.append(1000.0)
    lived = [pulse.is_live]  # it has not begun
    beating = asyncio.create_task(pulse.beat())
    await asyncio.sleep(0)
    for now in (1010.0, 1010.1):
        times.append(now)
        lived.append(pulse.is_live)
    assert lived == [True, True, False]
    beating.cancel()
