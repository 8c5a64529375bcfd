"""Where workers are: at fixed addresses, or behind names whose addresses come and go.

Shell: asks the resolver. A headless service of Kubernetes has one address for each ready pod.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

DNS_PREFIX = "dns:"
INTERVAL_S = 2.0  # between two looks
MAX_PORT = 65_535

_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")

_logger = logging.getLogger(__name__)

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the IP addresses behind a host's name, which is asked for a port; raises OSError."""


@dataclass(frozen=True, slots=True)
class DnsName:
    """A name; every address behind it is a worker.

    Args:
        host: As it was written.
        port: Of the workers.
        scheme: Stands before each worker's address, such as "tcp://".
    """

    host: str
    port: int
    scheme: str = ""

    def __str__(self) -> str:
        return f"{DNS_PREFIX}{self.host}:{self.port}"

    def at(self, ip_address: str) -> str:
        """The worker at one of the addresses."""
        host = f"[{ip_address}]" if ":" in ip_address else ip_address
        return f"{self.scheme}{host}:{self.port}"


Source = str | DnsName
"""One entry of a setting: the address of a worker, or a name of many."""


def is_host_and_port(text: str) -> bool:
    """True for `host:port`, and for `[address]:port` with an address of IPv6."""
    match = _HOST_AND_PORT.fullmatch(text)
    return match is not None and 1 <= int(match[2]) <= MAX_PORT


def parse_name(entry: str, scheme: str = "") -> DnsName:
    """Reads `dns:host:port`.

    Args:
        entry: One entry of a setting.
        scheme: See `DnsName`.

    Raises:
        ValueError: It is not of this form.
    """
    text = entry.removeprefix(DNS_PREFIX)
    if not is_host_and_port(text):
        raise ValueError(
            f"{entry!r} must be {DNS_PREFIX}host:port with a port from 1 to {MAX_PORT}"
        )
    host, _, port = text.rpartition(":")
    return DnsName(host, int(port), scheme)


async def resolve(host: str, port: int) -> list[str]:
    """A `Resolver`: what the system knows, IPv4 and IPv6; asked in a thread."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in found]


class Discovery:
    """Finds workers, and remembers where they were.

    Args:
        sources: Where they are; may be exchanged.
        resolve: Knows names.
    """

    def __init__(self, sources: Sequence[Source], resolve: Resolver = resolve) -> None:
        self.sources = sources
        self._resolve = resolve
        self._known: dict[DnsName, list[str]] = {}
        self._unanswered: set[DnsName] = set()

    async def find(self) -> list[str]:
        """All workers there are now, each once.

        A name that cannot be looked up stands for what it stood for last; at first, for nobody.
        """
        found: list[str] = []
        for source in self.sources:
            found += [source] if isinstance(source, str) else await self._behind(source)
        return list(dict.fromkeys(found))

    async def _behind(self, name: DnsName) -> list[str]:
        try:
            addresses = await self._resolve(name.host, name.port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label that no name can have
            if name not in self._unanswered:
                self._unanswered.add(name)
                kept = len(self._known.get(name, ()))
                _logger.warning("%s cannot be looked up: %s; %d known stay", name, error, kept)
        else:
            self._unanswered.discard(name)
            self._known[name] = sorted({name.at(address) for address in addresses})
        return self._known.get(name, [])
