"""The proxy of the link tests: bytes come late and in order; an end on one side ends the other."""

import asyncio
import time

import pytest

from outrider.supervision.ports import free_port
from tests.links.delay_proxy import serve

DELAY_S = 0.02
PATIENCE_S = 5.0


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
    writer.close()


@pytest.mark.asyncio
async def test_each_direction_takes_the_delay_longer() -> None:
    far = await asyncio.start_server(echo, "127.0.0.1", 0)
    far_port = far.sockets[0].getsockname()[1]
    port = free_port(0)
    proxy = asyncio.create_task(serve(port, "127.0.0.1", far_port, DELAY_S))
    async with far, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0)
        start = time.monotonic()
        for number in range(100):
            writer.write(bytes([number]))
            await asyncio.sleep(0)
        assert await reader.readexactly(100) == bytes(range(100))
        assert time.monotonic() - start >= 2 * DELAY_S
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    proxy.cancel()
    await asyncio.gather(proxy, return_exceptions=True)


@pytest.mark.asyncio
async def test_where_nobody_listens_the_connection_ends() -> None:
    port = free_port(0)
    proxy = asyncio.create_task(serve(port, "127.0.0.1", free_port(0), 0.0))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0)
        assert await reader.read() == b""
        writer.close()
    proxy.cancel()
    await asyncio.gather(proxy, return_exceptions=True)
