"""Keeps children running, and stops them in order. Knows nothing of what they are.

A crashed child is started again as the restart policy says. One request to stop ends them one
after the other, a second one kills them. A child that refuses its settings stops all.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from outrider.settings import EXIT_BAD_SETTINGS
from outrider.supervision.child import Child, ChildSpec, OnLine, describe_status
from outrider.supervision.restart_policy import RestartPolicy

EXIT_GAVE_UP = 1

Note = Callable[[str], None]
OnEnd = Callable[[str, int], None]


class Supervisor:
    """Owns its children from `run` to its end.

    Args:
        specs: The children in the order they are stopped; they are started in reverse.
        policy: When a crashed one is started again.
        on_line: Called with a child's name and a line of its output.
        on_note: Called with each thing a person should know.
        clock: Seconds, only ever rising.
        on_end: Called with a child's name and exit status, each time that one ends.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        policy: RestartPolicy,
        on_line: OnLine,
        on_note: Note,
        clock: Callable[[], float] = time.monotonic,
        on_end: OnEnd = lambda name, status: None,
    ) -> None:
        self._specs = tuple(specs)
        self._policy = policy
        self._on_line = on_line
        self._on_note = on_note
        self._clock = clock
        self._on_end = on_end
        self._running: dict[str, Child] = {}
        self._last_lines: dict[str, str] = {}
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._status = 0

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the children that run now, by name."""
        return {name: child.pid for name, child in self._running.items()}

    def request_stop(self) -> None:
        """Stops the children in order; the second call kills them."""
        if self._stopping.is_set():
            self._killing.set()
        self._stopping.set()

    async def run(self) -> int:
        """Starts the children and returns when all have ended.

        Returns:
            0 after a request to stop, 78 where a child refused its settings, 1 where one crashed
            too often.
        """
        keepers = {
            spec.name: asyncio.create_task(self._keep(spec), name=f"keep-{spec.name}")
            for spec in reversed(self._specs)
        }
        await self._stopping.wait()
        for spec in self._specs:
            await self._stop(spec, keepers[spec.name])
        return self._status

    async def _keep(self, spec: ChildSpec) -> None:
        """Runs one child again and again until all stop."""
        crash_times: list[float] = []
        while not self._stopping.is_set():
            try:
                child = await Child.start(spec, self._note_line)
            except OSError as error:
                self._fail(EXIT_GAVE_UP, f"{spec.name} cannot be started: {error}")
                return
            self._running[spec.name] = child
            if self._stopping.is_set():  # it was asked for while this one was being born
                child.kill()
            status = await child.wait()
            del self._running[spec.name]
            self._on_end(spec.name, status)
            if self._stopping.is_set():
                return
            crash_times.append(self._clock())
            if not await self._wait_for_restart(spec, status, crash_times):
                return

    async def _wait_for_restart(
        self, spec: ChildSpec, status: int, crash_times: Sequence[float]
    ) -> bool:
        """False where there is to be no restart."""
        if status == EXIT_BAD_SETTINGS:
            reason = self._last_lines.get(spec.name, describe_status(status))
            self._fail(EXIT_BAD_SETTINGS, f"{spec.name} cannot start: {reason}")
            return False
        delay_s = self._policy.delay_s(crash_times)
        if delay_s is None:
            self._fail(EXIT_GAVE_UP, f"{spec.name} {describe_status(status)} too often; giving up")
            return False
        self._on_note(f"{spec.name} {describe_status(status)}; starting it again in {delay_s:g} s")
        try:
            await asyncio.wait_for(self._stopping.wait(), delay_s)
        except TimeoutError:
            return True
        return False

    async def _stop(self, spec: ChildSpec, keeper: "asyncio.Task[None]") -> None:
        child = self._running.get(spec.name)
        if child is not None and not self._killing.is_set():
            child.terminate()
        killing = asyncio.create_task(self._killing.wait())
        await asyncio.wait(
            {keeper, killing}, timeout=spec.stop_timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        killing.cancel()
        if not keeper.done():
            if not self._killing.is_set():
                self._on_note(f"{spec.name} does not end within {spec.stop_timeout_s:g} s; killed")
            if (child := self._running.get(spec.name)) is not None:
                child.kill()
        await keeper

    def _note_line(self, name: str, line: str) -> None:
        if line.strip():
            self._last_lines[name] = line
        self._on_line(name, line)

    def _fail(self, status: int, reason: str) -> None:
        if not self._stopping.is_set():
            self._status = status
            self._on_note(reason)
            self._stopping.set()
