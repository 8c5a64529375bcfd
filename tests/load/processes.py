"""The processes of a load test: a gateway with its real settings, and the stub worker behind it."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider.supervision.ports import free_port
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
        endless_rounds: Rounds that the worker has sent to streams that want no end.
        ended_after: Tokens of each of these that has ended.
    """

    pid: int
    grpc_port: int
    http_port: int
    endless_rounds: int = 0
    ended_after: list[int] = field(default_factory=list)

    def memory_mib(self, name: str = "VmRSS") -> float:
        """Memory of the gateway: now, or with "VmHWM" the most it ever had."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024 / MIB
        raise ValueError(name)

    async def wait_until_stalled(self, timeout_s: float = 60.0) -> None:
        """Returns when the worker has sent nothing to endless streams for three seconds."""
        async with asyncio.timeout(timeout_s):
            before = -1
            while before != self.endless_rounds:
                before = self.endless_rounds
                await asyncio.sleep(3)

    async def read(self, lines: asyncio.StreamReader) -> None:
        """Takes what the worker tells."""
        while line := await lines.readline():
            told = json.loads(line)
            self.endless_rounds = told.get("endless_rounds", self.endless_rounds)
            if "ended_after" in told:
                self.ended_after.append(told["ended_after"])


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
        grpc_port = free_port(50051, frozenset())
        http_port = free_port(8080, frozenset({grpc_port}))
        ports = ("--grpc-port", grpc_port, "--http-port", http_port)
        draft = ("--draft-addresses", f"{HOST}:{draft_port}")
        gateway = await stack.enter_async_context(
            _process("gateway", "--model", folder, *draft, *ports, *flags)
        )
        await _serving(gateway)
        found = Service(gateway.pid, grpc_port, http_port)
        reading = asyncio.create_task(found.read(worker.stdout))
        stack.callback(reading.cancel)
        yield found


@asynccontextmanager
async def _process(module: str, *words: object) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *map(str, words)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if module == "gateway" else None,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def _serving(gateway: asyncio.subprocess.Process) -> None:
    assert gateway.stderr is not None
    seen: list[str] = []
    async with asyncio.timeout(START_S):
        while not seen or "gateway.readiness: serving" not in seen[-1]:
            seen.append((await gateway.stderr.readline()).decode())
            if not seen[-1]:
                raise RuntimeError(f"the gateway did not start: {seen}")
