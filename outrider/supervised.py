"""Notices the death of the process that started this one, so that no orphan survives it.

A supervisor holds the write end of this process's standard input and never writes. When it is gone,
for whatever reason, the kernel closes that end. Shared by the three services; knows none of them.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping

SUPERVISED_VARIABLE = "OUTRIDER_SUPERVISED"


def watch_parent(on_lost: Callable[[], None], environ: Mapping[str, str]) -> None:
    """Calls back when standard input ends, in a process that says it is supervised.

    Args:
        on_lost: Called once, from another thread.
        environ: OUTRIDER_SUPERVISED must be "1" in it; otherwise nothing is watched.
    """
    if environ.get(SUPERVISED_VARIABLE) != "1":
        return
    descriptor = sys.stdin.fileno()
    threading.Thread(
        target=_watch, args=(descriptor, on_lost), name="watch-parent", daemon=True
    ).start()


def stop_event(environ: Mapping[str, str]) -> asyncio.Event:
    """An event of the running loop, set by SIGTERM, SIGINT, or the loss of a supervisor.

    Args:
        environ: As for `watch_parent`.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        _call_on_signal(loop, number, stopping.set)

    def on_lost() -> None:
        loop.call_soon_threadsafe(stopping.set)

    watch_parent(on_lost, environ)
    return stopping


def _call_on_signal(
    loop: asyncio.AbstractEventLoop, number: signal.Signals, call: Callable[[], None]
) -> None:
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:  # the loops of Windows take none
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))


def _watch(descriptor: int, on_lost: Callable[[], None]) -> None:
    # Not sys.stdin.read: its lock, held here, would abort the interpreter's shutdown.
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass
    on_lost()
