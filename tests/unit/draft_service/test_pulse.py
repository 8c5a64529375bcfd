"""An event loop that gets on, and one that does not."""

import asyncio

import pytest

from draft_service.pulse import Pulse


@pytest.mark.asyncio
async def test_a_loop_that_does_not_beat_is_not_live() -> None:
    now = 0.0
    pulse = Pulse(10.0, lambda: now)
    now = 1000.0
    assert pulse.is_live, "it has not begun"
    beating = asyncio.create_task(pulse.beat())
    await asyncio.sleep(0)
    now = 1010.0
    assert pulse.is_live
    now = 1010.1
    assert not pulse.is_live
    beating.cancel()
