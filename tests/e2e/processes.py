"""Looks at running processes through /proc, and waits for what they do."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

POLL_S = 0.05

T = TypeVar("T")


def wait_for(what: str, ask: Callable[[], T | None], timeout_s: float = 10.0) -> T:
    """Asks again and again until the answer is neither None nor False.

    Raises:
        AssertionError: It still is at the deadline.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"still waiting for {what} after {timeout_s:g} s"
        time.sleep(POLL_S)


def children(pid: int) -> dict[str, int]:
    """Running children of a process: module or program by `python -m MODULE`, with their ids."""
    found: dict[str, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name may hold spaces and brackets; the state and the parent follow the last one.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            name = words[words.index("-m") + 1] if "-m" in words else words[0]
            found[name] = int(folder.name)
    return found


def is_running(pid: int) -> bool:
    """True where the process exists and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def mapped_files(pid: int) -> str:
    """The process's memory map."""
    return Path(f"/proc/{pid}/maps").read_text()


def metric(port: int, name: str, **labels: str) -> float:
    """One sample of a Prometheus page.

    Raises:
        AssertionError: There is no such sample.
    """
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        text = page.read().decode()
    values = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert values, f"no metric {name} with {labels}"
    return float(values[0])
