"""A TCP proxy that delays each direction by the same time: a longer cable, in user space.

    python -m tests.links.delay_proxy LISTEN_PORT HOST PORT DELAY_MS

For kernels without netem. Bytes keep their order; how many go through a second is not changed.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress

CHUNK_BYTES = 64 * 1024
MAX_CHUNKS = 1024  # on their way in one direction; then its sender has to wait


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Brings bytes from one end to the other, each as late as the delay says."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MAX_CHUNKS)

    async def take() -> None:
        while True:
            data = await reader.read(CHUNK_BYTES)
            await on_the_way.put((loop.time() + delay_s, data))
            if not data:
                return

    taking = asyncio.create_task(take())
    try:
        while True:
            due, data = await on_the_way.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                return
            writer.write(data)
            await writer.drain()
    finally:
        taking.cancel()


async def serve(listen_port: int, host: str, port: int, delay_s: float) -> None:
    """Serves until cancelled."""

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_writer = None
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(host, port)
            ways = [
                asyncio.create_task(carry(reader, far_writer, delay_s)),
                asyncio.create_task(carry(far_reader, writer, delay_s)),
            ]
            # Where one end is gone, the other one hears of it at once.
            _, rest = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in rest:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        for one in (writer, far_writer):
            if one is not None:
                one.close()

    server = await asyncio.start_server(connect, "127.0.0.1", listen_port)
    async with server:
        await server.serve_forever()


def main(argv: Sequence[str]) -> None:
    """Runs until a signal."""
    listen_port, host, port, delay_ms = argv
    asyncio.run(serve(int(listen_port), host, int(port), float(delay_ms) / 1000))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
