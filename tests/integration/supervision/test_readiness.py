import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outrider.supervision.ports import free_port, is_free
from outrider.supervision.readiness import Health, ask_health, wait_until_serving


@asynccontextmanager
async def _gateway(*answers: bytes) -> AsyncIterator[int]:
    """Gives its answers in turn, the last one for ever."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /health HTTP/1.1\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


NOT_YET = b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"status": "not_serving", "reason": "loading"}'
SERVING = b'HTTP/1.1 200 OK\r\n\r\n{"status": "serving"}'


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SERVING, Health(True, "")),
        (NOT_YET, Health(False, "loading")),
        (b"HTTP/1.1 503 X\r\n\r\nnot json", Health(False, "")),
        (b"", Health(False, "")),
        (b"SSH-2.0-200\r\n", Health(False, "")),
    ],
)
async def test_only_200_is_serving(answer: bytes, expected: Health) -> None:
    async with _gateway(answer) as port:
        assert await ask_health("127.0.0.1", port) == expected


@pytest.mark.asyncio
async def test_nobody_there_is_not_serving() -> None:
    assert await ask_health("127.0.0.1", free_port(0)) == Health(False, "")


@pytest.mark.asyncio
async def test_the_wait_passes_reasons_on_and_ends_when_it_serves() -> None:
    reasons: list[str] = []
    async with _gateway(NOT_YET, NOT_YET, SERVING) as port:
        await wait_until_serving("127.0.0.1", port, reasons.append, interval_s=0.0)
    assert reasons == ["loading", "loading"]


@pytest.mark.asyncio
async def test_a_port_in_use_is_seen_and_another_one_is_found() -> None:
    async with _gateway(SERVING) as port:
        assert not is_free("127.0.0.1", port)
        assert free_port(port) != port
    assert is_free("127.0.0.1", port)
    assert free_port(port) == port
    assert free_port(port, frozenset({port})) != port


def test_a_host_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="assign"):
        is_free("192.0.2.1", 50051)
