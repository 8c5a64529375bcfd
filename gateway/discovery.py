"""Where draft workers are: a fixed list, or names whose addresses come and go.

Shell: asks the resolver. A headless service of Kubernetes has one address per ready pod.
"""

import asyncio
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PORT = 65_535
DNS_PREFIX = "dns:"

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class WorkerSource:
    """One entry of the setting.

    Args:
        host: Name or address, as it was written.
        port: Of the workers.
        is_resolved: True: every address behind the name is a worker.
    """

    host: str
    port: int
    is_resolved: bool

    async def addresses(self) -> list[str]:
        """The workers there now, as host:port, sorted.

        Raises:
            OSError: The name cannot be resolved.
        """
        if not self.is_resolved:
            return [f"{self.host}:{self.port}"]
        found = await asyncio.get_running_loop().getaddrinfo(
            self.host.strip("[]"), self.port, type=socket.SOCK_STREAM
        )
        return sorted({_joined(str(info[4][0]), self.port) for info in found})


def parse_sources(text: str) -> list[WorkerSource]:
    """Reads a setting such as `host:50052, dns:draft.outrider.svc:50052`.

    Args:
        text: Entries separated by commas: `host:port`, or `dns:host:port` for every address behind
            a name.

    Raises:
        ValueError: An entry is neither, or there is none.
    """
    entries = [part.strip() for part in text.split(",") if part.strip()]
    if not entries:
        raise ValueError("names no draft worker")
    return [_parse(entry) for entry in entries]


async def find_workers(sources: Sequence[WorkerSource]) -> list[str]:
    """All workers of all sources, each once.

    Raises:
        OSError: A name cannot be resolved.
    """
    return list(dict.fromkeys([one for source in sources for one in await source.addresses()]))


def _parse(entry: str) -> WorkerSource:
    match = _ADDRESS.fullmatch(entry.removeprefix(DNS_PREFIX))
    if match is None or not 1 <= int(match[2]) <= MAX_PORT:
        raise ValueError(
            f"{entry!r} must be host:port or {DNS_PREFIX}host:port with a port from 1 to {MAX_PORT}"
        )
    return WorkerSource(match[1], int(match[2]), entry.startswith(DNS_PREFIX))


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
