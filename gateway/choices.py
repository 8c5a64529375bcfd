"""Several answers to one prompt as one stream of messages, each marked with its choice.

The first answer starts alone: when its first message is there, the prompt is in the cache, and the
others begin with its rows instead of running it again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from outrider.v1 import generation_pb2

Messages = AsyncGenerator[generation_pb2.GenerateResponse, None]

_Item = generation_pb2.GenerateResponse | Exception | None

WAITING_EACH = 2  # messages that wait to be read, for each choice; more make it wait


async def interleave(count: int, open_choice: Callable[[int], Messages]) -> Messages:
    """Messages of all choices, in the order in which they come.

    Args:
        count: Of the choices, at least 2.
        open_choice: The messages of choice 0 to count - 1.

    Raises:
        OutriderError: Of the first choice that fails; the others are ended.
    """
    queue: asyncio.Queue[_Item] = asyncio.Queue(WAITING_EACH * count)
    has_begun = asyncio.Event()

    async def run(number: int) -> None:
        if number:
            await has_begun.wait()
        end: Exception | None = None
        try:
            async with aclosing(open_choice(number)) as messages:
                async for message in messages:
                    message.choice = number
                    await queue.put(message)
                    has_begun.set()
        except Exception as error:
            end = error  # told behind what came before it
        await queue.put(end)

    tasks = [asyncio.ensure_future(run(number)) for number in range(count)]
    try:
        left = count
        while left:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                left -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
