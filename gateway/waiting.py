"""Waiting for an answer while its client may go away."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from gateway.choices import Messages
from outrider.v1 import generation_pb2

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed its connection before the answer began."""


async def first_of(messages: Messages) -> generation_pb2.GenerateResponse:
    """The first message: until it is there, an error still has its own HTTP status."""
    try:
        return await anext(messages)
    except BaseException:
        await messages.aclose()
        raise


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Runs the work, and cancels it when the client goes away meanwhile.

    Raises:
        ClientGone: It did.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnect(request.receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        watch.cancel()
        task.cancel()


async def _disconnect(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
