"""Two network namespaces with a veth pair between them: two hosts on one machine.

Needs root and iproute2. What is made here is gone when the context ends, however it ends.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NEAR, FAR = "198.18.77.1", "198.18.77.2"  # of the range that is kept for measuring networks
PREFIX = 30
CLONE_NEWNET = 0x40000000
BURST = "256kb"
LATENCY = "20ms"  # what waits longer in the bucket's queue is dropped


class NoNamespaces(Exception):
    """They cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The two.

    Args:
        near: Namespace of gateway and draft worker.
        far: Namespace of the verify worker.
    """

    near: str
    far: str

    def far_command(self) -> tuple[str, ...]:
        """What to put before a command that runs on the far host."""
        return ("ip", "netns", "exec", self.far)

    def pull(self) -> None:
        """Pulls the cable."""
        _ip("-n", self.far, "link", "set", "far", "down")

    def plug(self) -> None:
        """Plugs it in again."""
        _ip("-n", self.far, "link", "set", "far", "up")


@contextmanager
def two_hosts(rate: str) -> Iterator[Hosts]:
    """Makes them, with a link of this rate.

    Args:
        rate: As `tc` reads it, such as "1gbit".

    Raises:
        NoNamespaces: This machine or user cannot.
    """
    _check()
    _remove_stale()
    hosts = Hosts(f"outrider-near-{os.getpid()}", f"outrider-far-{os.getpid()}")
    try:
        for name in (hosts.near, hosts.far):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        pair = ("type", "veth", "peer", "name", "far", "netns", hosts.far)
        _ip("link", "add", "near", "netns", hosts.near, *pair)
        for name, port, address in ((hosts.near, "near", NEAR), (hosts.far, "far", FAR)):
            _ip("-n", name, "address", "add", f"{address}/{PREFIX}", "dev", port)
            _ip("-n", name, "link", "set", port, "up")
            bucket = ("tbf", "rate", rate, "burst", BURST, "latency", LATENCY)
            _run("tc", "-n", name, "qdisc", "add", "dev", port, "root", *bucket)
        yield hosts
    finally:
        for name in (hosts.near, hosts.far):  # the ports go with them
            with suppress(NoNamespaces):
                _ip("netns", "delete", name)


def enter(name: str) -> None:
    """Moves this thread, and all that it starts from now on, into a namespace.

    Raises:
        NoNamespaces: That is not allowed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise NoNamespaces(f"setns: {os.strerror(ctypes.get_errno())}")


def _check() -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise NoNamespaces("only root may make network namespaces")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise NoNamespaces(f"there is no {tool} here; it comes with iproute2")


def _remove_stale() -> None:
    """Those of runs that were killed."""
    for path in Path("/run/netns").glob("outrider-*-*"):
        pid = path.name.rpartition("-")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _ip("netns", "delete", path.name)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"{' '.join(words)}: {done.stderr.strip()}")
