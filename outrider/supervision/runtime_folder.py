"""The private folder of the sockets between the workers, and the endpoints in it."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from outrider.supervision.ports import free_port

MAX_SOCKET_PATH_BYTES: Final = 100  # the kernels' limits are 104 to 108


@contextmanager
def verify_endpoints(
    environ: Mapping[str, str], count: int = 1, platform: str = sys.platform
) -> Iterator[list[str]]:
    """ZeroMQ endpoints that only this user can reach, for as long as the context is open.

    Args:
        count: How many, all different.
        environ: XDG_RUNTIME_DIR names the folder to use, else the one for temporary files.
        platform: As `sys.platform`.

    Yields:
        `ipc://` in a folder with mode 0700; loopback TCP where there are no such sockets, or
        where the folder's path is too long for one.
    """
    if platform == "win32":
        yield _loopback_endpoints(count)
        return
    parent = environ.get("XDG_RUNTIME_DIR", "").strip()
    usable = parent if parent and Path(parent).is_dir() else None
    try:
        folder = Path(tempfile.mkdtemp(prefix="outrider-", dir=usable))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="outrider-"))
    paths = [folder / f"verify-{number + 1}.sock" for number in range(count)]
    try:
        fit = all(len(str(path).encode()) <= MAX_SOCKET_PATH_BYTES for path in paths)
        yield [f"ipc://{path}" for path in paths] if fit else _loopback_endpoints(count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _loopback_endpoints(count: int) -> list[str]:
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(0, frozenset(ports)))
    return [f"tcp://127.0.0.1:{port}" for port in ports]
