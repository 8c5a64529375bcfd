"""Starts the other ranks of a target on this machine, watches them, and ends them with this one.

Where `torchrun` started this process it does all that; this file is for `--tensor-parallel` alone,
so that whoever starts one verify worker (a supervisor, a person) still has one process to watch.
"""

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from outrider.settings import EXIT_BAD_SETTINGS
from outrider.supervised import SUPERVISED_VARIABLE
from outrider.supervision.child import describe_status
from verify_service.ranks import MEETING_VARIABLE
from verify_service.step import EXIT_TARGET_LOST

END_TIMEOUT_S = 10.0
# Ranks of one machine talk over its loopback interface only, unless the environment names another.
_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")

logger = logging.getLogger(__name__)


@contextmanager
def rank_processes(count: int, argv: Sequence[str], environ: Mapping[str, str]) -> Iterator[None]:
    """The other ranks, while the context is open; this process becomes the first of them.

    One that ends before takes this process with it, whatever this process is waiting for.

    Args:
        count: Ranks, this one included, at least 2.
        argv: Flags of this process, which the others get too.
        environ: Of this process.

    Yields:
        None; what `join_ranks` reads is in `os.environ` then.
    """
    folder = Path(tempfile.mkdtemp(prefix="outrider-ranks-"))  # nobody else can look into it
    common = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        MEETING_VARIABLE: str(folder / "meeting"),
    }
    if loopback := _loopback():
        common |= {name: environ.get(name) or loopback for name in _INTERFACE_VARIABLES}
    os.environ.update(common, RANK="0", LOCAL_RANK="0")
    others = [_start(rank, argv, common) for rank in range(1, count)]
    is_over = threading.Event()
    for rank, process in enumerate(others, start=1):
        threading.Thread(
            target=_watch,
            args=(rank, process, is_over, folder),
            name=f"watch-rank-{rank}",
            daemon=True,
        ).start()
    try:
        yield
        is_over.set()
        _wait(others)
    finally:
        is_over.set()
        for process in others:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _start(rank: int, argv: Sequence[str], common: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "verify_service", *argv],
        # Its end tells the rank that this process is gone; nothing is ever written.
        stdin=subprocess.PIPE,
        env={
            **os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank),
            SUPERVISED_VARIABLE: "1",
        },
    )  # fmt: skip


def _watch(
    rank: int, process: "subprocess.Popen[bytes]", is_over: threading.Event, folder: Path
) -> None:
    status = process.wait()
    if is_over.is_set():
        return
    shutil.rmtree(folder, ignore_errors=True)
    # The main thread may wait for that rank's numbers for ever; there is nothing left to save.
    if status == EXIT_BAD_SETTINGS:  # it has said why
        os._exit(EXIT_BAD_SETTINGS)
    logger.error("rank %d %s; the target cannot go on", rank, describe_status(status))
    os._exit(EXIT_TARGET_LOST)


def _wait(others: Sequence["subprocess.Popen[bytes]"]) -> None:
    for process in others:
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            logger.warning("a rank has not ended within %g s; it is killed", END_TIMEOUT_S)


def _loopback() -> str:
    """Name of the loopback interface: "lo", "lo0"."""
    names = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    return names[0] if names else ""
