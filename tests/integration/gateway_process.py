"""A gateway as a process of its own, with a scripted draft worker in this one."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.gateway_stage import HOST, PATIENCE_S, ScriptedDrafting, start_drafting
from tests.unit.gateway.tiny_tokenizer import CHAT_TEMPLATE, tiny_tokenizer

START_S = 30.0


def write_model(folder: Path) -> Path:
    """A model folder, as far as the gateway needs it."""
    (folder / "tokenizer.json").write_text(tiny_tokenizer().to_str(), encoding="utf-8")
    (folder / "config.json").write_text('{"vocab_size": 300}', encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    return folder


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(bound.getsockname()[1]) for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    return kept | variables


class RunningGateway:
    """A gateway process that has said that it is ready.

    Args:
        process: Of which standard error is read here.
        grpc_port: Where it listens.
        http_port: The same.
    """

    def __init__(self, process: asyncio.subprocess.Process, grpc_port: int, http_port: int) -> None:
        self.process = process
        self.grpc_port = grpc_port
        self.http_port = http_port
        self.log: list[str] = []

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self.process.returncode is None

    @property
    def resident_mib(self) -> float:
        """Memory that it holds now."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20

    async def end(self) -> int:
        """The exit status."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def read_log(self, until: str = "") -> None:
        """Reads lines as they come, up to one that holds these words, or to the end."""
        assert self.process.stderr is not None
        while line := (await self.process.stderr.readline()).decode():
            self.log.append(line)
            if until and until in line:
                return
        assert not until, self.log


@asynccontextmanager
async def running(
    drafting: ScriptedDrafting, model: Path, flags: Sequence[str] = (), **variables: str
) -> AsyncIterator[RunningGateway]:
    """Starts a gateway on free ports and a draft worker for it, and ends both again."""
    draft_server, draft_port = await start_drafting(drafting)
    grpc_port, http_port = free_ports(2)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway"),
        *("--model", str(model)),
        *("--draft-addresses", f"{HOST}:{draft_port}"),
        *("--grpc-port", str(grpc_port), "--http-port", str(http_port)),
        *flags,
        env=environment(**variables),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    gateway = RunningGateway(process, grpc_port, http_port)
    reading = None
    try:
        async with asyncio.timeout(START_S):
            await gateway.read_log(until="ready:")
        reading = asyncio.create_task(gateway.read_log())  # a full pipe would stop it
        yield gateway
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading
        await draft_server.stop(0)
