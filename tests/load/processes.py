"""The processes of a load test: a gateway with its real settings, and the stub worker behind it."""

import asyncio
import contextlib
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.gateway.tiny_tokenizer import tiny_tokenizer

HOST = "127.0.0.1"
START_S = 60.0
MIB = 2**20


@dataclass(slots=True)
class Service:
    """A running gateway.

    Args:
        pid: Of the gateway.
        grpc_port: Where it listens.
        http_port: Where it listens.
        ended: `asked` and `sent` of each stream that ended on the worker.
    """

    pid: int
    grpc_port: int
    http_port: int
    ended: list[dict[str, int]] = field(default_factory=list)

    def memory_mib(self, name: str = "VmRSS") -> float:
        """Memory of the gateway: now, or with "VmHWM" the most it ever had."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / MIB
        raise ValueError(name)

    def cpu_s(self) -> float:
        """Processor time that the gateway has used."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / 100


@asynccontextmanager
async def service(interval_ms: float, flags: Sequence[str] = ()) -> AsyncIterator[Service]:
    """Starts both and ends them again.

    Args:
        interval_ms: Between two rounds of a stream.
        flags: Of the gateway.
    """
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "tokenizer.json").write_text(tiny_tokenizer().to_str(), encoding="utf-8")
        (folder / "config.json").write_text('{"vocab_size": 300}', encoding="utf-8")
        worker = await stack.enter_async_context(_process("tests.load.stub_worker", interval_ms))
        assert worker.stdout is not None
        async with asyncio.timeout(START_S):
            draft_port = int(await worker.stdout.readline())
        grpc_port, http_port = _free_ports(2)
        ports = ("--grpc-port", grpc_port, "--http-port", http_port)
        draft = ("--draft-addresses", f"{HOST}:{draft_port}")
        gateway = await stack.enter_async_context(
            _process("gateway", "--model", folder, *draft, *ports, *flags)
        )
        await _ready(gateway)
        found = Service(gateway.pid, grpc_port, http_port)
        reading = asyncio.create_task(_read(worker.stdout, found.ended))
        stack.callback(reading.cancel)
        yield found


@asynccontextmanager
async def _process(module: str, *words: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *map(str, words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if module == "gateway" else None,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), 5)
        except TimeoutError:
            process.kill()
            await process.communicate()


async def _ready(gateway: asyncio.subprocess.Process) -> None:
    assert gateway.stderr is not None
    async with asyncio.timeout(START_S):
        seen = []
        while "serving" not in (line := (await gateway.stderr.readline()).decode()):
            seen.append(line)
            if not line:
                raise RuntimeError(f"the gateway did not start: {seen}")


async def _read(lines: asyncio.StreamReader, ended: list[dict[str, int]]) -> None:
    while line := await lines.readline():
        ended.append(json.loads(line))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(bound.getsockname()[1]) for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports
