"""Everything imports, and the start and the end of a service work, where POSIX is missing.

No Windows is at hand: in a fresh interpreter, modules of ours find no POSIX modules, and `os` and
`signal` without what Windows has not. Other packages keep what they have.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_WITHOUT_POSIX = """
import asyncio, builtins, importlib, importlib.util, os, pkgutil, signal, types

PACKAGES = ("outrider", "gateway", "draft_service", "verify_service")
MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
SIGNALS = ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGQUIT")
CALLS = (
    "fork", "forkpty", "getuid", "geteuid", "getgid", "getpgid", "killpg", "setsid", "mkfifo",
    "uname", "sched_getaffinity", "sched_setaffinity", "wait3", "wait4", "chown", "getloadavg",
)

def without(module, names):
    left = types.ModuleType(module.__name__, module.__doc__)
    left.__dict__.update({k: v for k, v in vars(module).items() if k not in names})
    return left

real_import = builtins.__import__
poorer = {"os": without(os, CALLS), "signal": without(signal, SIGNALS)}

def import_as_there(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if level or importer.partition(".")[0] not in PACKAGES:
        return real_import(name, globals, locals, fromlist, level)
    if name.partition(".")[0] in MODULES:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return poorer.get(name) or real_import(name, globals, locals, fromlist, level)

def refuse(self, number, call, *args):
    raise NotImplementedError

builtins.__import__ = import_as_there
asyncio.SelectorEventLoop.add_signal_handler = refuse

def modules_of(package):
    yield package
    folder = importlib.util.find_spec(package).submodule_search_locations
    for info in pkgutil.walk_packages(folder, package + "."):
        yield info.name
"""

_IMPORT_ALL = (
    _WITHOUT_POSIX
    + """
count = 0
for package in PACKAGES:
    for name in modules_of(package):
        importlib.import_module(name)
        count += 1
print(count)
"""
)

_STOP = (
    _WITHOUT_POSIX
    + """
from outrider.supervised import stop_event

async def wait_for_sigterm():
    stopping = stop_event({})
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(stopping.wait(), 10)

asyncio.run(wait_for_sigterm())
print("stopped")
"""
)

_RELOAD = (
    _WITHOUT_POSIX
    + """
import pathlib, tempfile
try:
    from outrider.reloading import Reloadable, Reloader
except ModuleNotFoundError:
    from gateway.reloading import Reloadable, Reloader

async def watch_until_loaded():
    loop, loaded = asyncio.get_running_loop(), asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "keys"
        path.write_text("1")
        part = Reloadable("keys", (path,), lambda: loop.call_soon_threadsafe(loaded.set))
        reloader = Reloader([part])
        path.write_text("12")
        watching = asyncio.create_task(reloader.watch())
        await asyncio.wait_for(loaded.wait(), 10)
        watching.cancel()
        await asyncio.wait({watching})

asyncio.run(watch_until_loaded())
print("loaded")
"""
)


def _run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow  # all of torch and transformers is imported
def test_every_module_imports() -> None:
    assert int(_run(_IMPORT_ALL)) > 300


def test_sigterm_ends_a_service() -> None:
    assert _run(_STOP) == "stopped\n"


def test_files_are_loaded_again() -> None:
    assert _run(_RELOAD) == "loaded\n"
