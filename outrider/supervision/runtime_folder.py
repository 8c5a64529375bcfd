"""The private folder of the socket between the workers, and the endpoint in it."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from outrider.supervision.ports import free_port

MAX_SOCKET_PATH_BYTES: Final = 100  # the kernels' limits are 104 to 108

_SOCKET_NAME = "verify.sock"


@contextmanager
def verify_endpoint(environ: Mapping[str, str], platform: str = sys.platform) -> Iterator[str]:
    """A ZeroMQ endpoint that only this user can reach, for as long as the context is open.

    Args:
        environ: XDG_RUNTIME_DIR names the folder to use, else the one for temporary files.
        platform: As `sys.platform`.

    Yields:
        `ipc://` in a folder with mode 0700; loopback TCP where there are no such sockets, or
        where the folder's path is too long for one.
    """
    if platform == "win32":
        yield _loopback_endpoint()
        return
    parent = environ.get("XDG_RUNTIME_DIR", "").strip()
    usable = parent if parent and Path(parent).is_dir() else None
    try:
        folder = Path(tempfile.mkdtemp(prefix="outrider-", dir=usable))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="outrider-"))
    path = folder / _SOCKET_NAME
    try:
        fits = len(str(path).encode()) <= MAX_SOCKET_PATH_BYTES
        yield f"ipc://{path}" if fits else _loopback_endpoint()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _loopback_endpoint() -> str:
    return f"tcp://127.0.0.1:{free_port(0)}"
