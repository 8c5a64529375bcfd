"""The supervisor against child programs of a few lines. Waits for lines and locks, not for time."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outrider.supervision.child import MAX_LINE_BYTES, ChildSpec
from outrider.supervision.restart_policy import RestartPolicy
from outrider.supervision.supervisor import Supervisor

POLICY = RestartPolicy(first_delay_s=0.0, max_delay_s=0.0, max_crashes=3)

WAIT_FOR_SIGTERM = """
import signal, sys
def end(*_):
    print("bye")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up")
signal.pause()
"""
IGNORE_SIGTERM = """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("no"))
print("up")
while True:
    signal.pause()
"""


def _child(name: str, program: str, *arguments: str, stop_timeout_s: float = 30.0) -> ChildSpec:
    return ChildSpec(name, (sys.executable, "-S", "-c", program, *arguments), stop_timeout_s)


class Terminal:
    """What was shown, and somebody who reacts to it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._changed = asyncio.Event()

    def line(self, name: str, text: str) -> None:
        self.lines.append((name, text))
        self._changed.set()

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()


async def _run(
    specs: list[ChildSpec],
    act: Callable[[Supervisor, Terminal], Awaitable[None]],
    policy: RestartPolicy = POLICY,
) -> tuple[int, Terminal]:
    terminal = Terminal()
    supervisor = Supervisor(specs, policy, terminal.line, terminal.note)
    acting = asyncio.ensure_future(act(supervisor, terminal))
    status = await supervisor.run()
    assert supervisor.pids == {}
    acting.cancel()
    await asyncio.gather(acting, return_exceptions=True)
    return status, terminal


async def _nothing(supervisor: Supervisor, terminal: Terminal) -> None:
    pass


def _stop_when(*lines: tuple[str, str]) -> Callable[[Supervisor, Terminal], Awaitable[None]]:
    async def act(supervisor: Supervisor, terminal: Terminal) -> None:
        await terminal.until(lambda: set(lines) <= set(terminal.lines))
        supervisor.request_stop()

    return act


@pytest.mark.asyncio
async def test_one_request_stops_the_children_in_order() -> None:
    names = ("gateway", "draft", "verify")
    specs = [_child(name, WAIT_FOR_SIGTERM) for name in names]
    status, terminal = await _run(specs, _stop_when(*((name, "up") for name in names)))
    assert status == 0
    assert [name for name, text in terminal.lines if text == "bye"] == list(names)
    assert terminal.notes == []


@pytest.mark.asyncio
async def test_a_crashed_child_is_started_again_and_the_others_are_left_alone(
    tmp_path: Path,
) -> None:
    crash_once = """
import os, signal, sys
try:
    os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL))
except FileExistsError:
    print("second life")
    signal.pause()
os.kill(os.getpid(), signal.SIGKILL)
"""
    specs = [
        _child("draft", WAIT_FOR_SIGTERM),
        _child("verify", crash_once, str(tmp_path / "seen")),
    ]
    status, terminal = await _run(specs, _stop_when(("verify", "second life"), ("draft", "up")))
    assert status == 0
    assert terminal.notes == ["verify was ended by SIGKILL; starting it again in 0 s"]
    assert terminal.lines.count(("draft", "up")) == 1


@pytest.mark.asyncio
async def test_each_end_is_told() -> None:
    ends: list[tuple[str, int]] = []
    terminal = Terminal()
    supervisor = Supervisor(
        [_child("verify", "raise SystemExit(3)")],
        POLICY,
        terminal.line,
        terminal.note,
        on_end=lambda name, status: ends.append((name, status)),
    )
    assert await supervisor.run() == 1
    assert ends == [("verify", 3)] * POLICY.max_crashes


@pytest.mark.asyncio
async def test_a_child_that_keeps_crashing_is_given_up_and_all_stop() -> None:
    specs = [
        _child("draft", WAIT_FOR_SIGTERM),
        _child("verify", "print('hi'); raise SystemExit(3)"),
    ]
    status, terminal = await _run(specs, _nothing)
    assert status == 1
    assert terminal.lines.count(("verify", "hi")) == POLICY.max_crashes
    assert terminal.notes[-1] == "verify ended with status 3 too often; giving up"


@pytest.mark.asyncio
async def test_a_child_that_refuses_its_settings_stops_all_with_its_message() -> None:
    refuse = "import sys; print('verify: --dtype: no such type', file=sys.stderr); sys.exit(78)"
    specs = [_child("draft", WAIT_FOR_SIGTERM), _child("verify", refuse)]
    status, terminal = await _run(specs, _nothing)
    assert status == 78
    assert terminal.notes == ["verify cannot start: verify: --dtype: no such type"]


@pytest.mark.asyncio
async def test_a_program_that_does_not_exist_is_named() -> None:
    status, terminal = await _run([ChildSpec("verify", ("/no/such/program",))], _nothing)
    assert status == 1
    assert terminal.notes[0].startswith("verify cannot be started: ")


@pytest.mark.asyncio
async def test_a_second_request_kills_what_does_not_end() -> None:
    async def stop_twice(supervisor: Supervisor, terminal: Terminal) -> None:
        await terminal.until(lambda: ("gateway", "up") in terminal.lines)
        supervisor.request_stop()
        await terminal.until(lambda: ("gateway", "no") in terminal.lines)
        supervisor.request_stop()

    status, terminal = await _run([_child("gateway", IGNORE_SIGTERM)], stop_twice)
    assert status == 0
    assert terminal.notes == []


@pytest.mark.asyncio
async def test_a_child_that_does_not_end_in_time_is_killed() -> None:
    specs = [_child("gateway", IGNORE_SIGTERM, stop_timeout_s=0.05)]
    status, terminal = await _run(specs, _stop_when(("gateway", "up")))
    assert status == 0
    assert terminal.notes == ["gateway does not end within 0.05 s; killed"]


@pytest.mark.asyncio
async def test_a_stop_during_the_wait_for_a_restart_does_not_wait_for_it() -> None:
    async def stop_on_note(supervisor: Supervisor, terminal: Terminal) -> None:
        await terminal.until(lambda: bool(terminal.notes))
        supervisor.request_stop()

    slow = RestartPolicy(first_delay_s=3600, max_delay_s=3600)
    status, _ = await _run([_child("verify", "raise SystemExit(1)")], stop_on_note, slow)
    assert status == 0


@pytest.mark.asyncio
async def test_any_output_becomes_lines() -> None:
    program = r"""
import sys
out = sys.stdout.buffer
out.write(b"bad \xff byte\r\n" + b"x" * 200_000 + b"\n 1%\r50%\r99%\nlast")
out.flush()
sys.exit(78)
"""
    _, terminal = await _run([_child("verify", program)], _nothing)
    texts = [text for _, text in terminal.lines]
    assert texts[0] == "bad \ufffd byte"
    assert "".join(texts[1:-2]) == "x" * 200_000
    assert max(map(len, texts)) <= 2 * MAX_LINE_BYTES + 1
    assert texts[-2:] == ["99%", "last"]


@pytest.mark.timeout(30)
def test_a_killed_supervisor_leaves_no_child_behind(tmp_path: Path) -> None:
    """The child holds a lock as long as it lives; taking that lock is waiting for its death."""
    lock = tmp_path / "lock"
    child = """
import fcntl, os, sys, threading
from outrider.supervised import watch_parent
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
lost = threading.Event()
watch_parent(lost.set, os.environ)
print("locked")
lost.wait()
"""
    supervisor = """
import asyncio, sys
from outrider.supervision.child import ChildSpec
from outrider.supervision.restart_policy import RestartPolicy
from outrider.supervision.supervisor import Supervisor
async def main():
    spec = ChildSpec("child", (sys.executable, "-c", sys.argv[2], sys.argv[1]))
    await Supervisor([spec], RestartPolicy(), lambda *a: print(*a, flush=True), print).run()
asyncio.run(main())
"""
    command = [sys.executable, "-c", supervisor, str(lock), child]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"child locked\n"
        os.kill(process.pid, signal.SIGKILL)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
