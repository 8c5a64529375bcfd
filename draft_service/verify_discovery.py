"""Tells a draft worker where verify workers are, beside its loop, which never waits for that."""

import asyncio
from collections.abc import Callable, Sequence

from outrider.discovery import INTERVAL_S, Discovery


async def keep_finding(
    discovery: Discovery, follow: Callable[[Sequence[str]], None], interval_s: float = INTERVAL_S
) -> None:
    """Looks until cancelled.

    Args:
        discovery: Finds the endpoints.
        follow: Told of all of them whenever one has come or gone; must not block.
        interval_s: Between two looks, seconds.
    """
    told: list[str] = []
    while True:
        found = await discovery.find()
        if found != told:
            follow(found)
            told = found
        await asyncio.sleep(interval_s)
