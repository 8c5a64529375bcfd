"""A JSON-lines file that grows while a long run goes on, and lets an interrupted run continue.

The first line is the key of the run: everything that its results depend on. A line that a crash
cut short is dropped. Knows nothing of what the records mean.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class OtherRun(Exception):
    """The file belongs to a run with another key; the message says what differs."""


class ResultLog:
    """Appends records to one file; no lock: one writer at a time.

    Args:
        path: The file; made with its folder where missing.
        key: What the results depend on, as JSON values.
        start_over: True: an existing file is replaced.

    Raises:
        OtherRun: The file has another key, or is not such a file.
    """

    def __init__(self, path: Path, key: Mapping[str, Any], *, start_over: bool = False) -> None:
        self.path = path
        self.records: list[Record] = []
        text = "" if start_over else complete_lines(path)
        if text:
            self.records = _read(path, text, key)
        else:
            text = json.dumps({"key": dict(key)}) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def append(self, record: Record) -> None:
        """Writes one record and hands it to the operating system at once."""
        self.records.append(record)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def complete_lines(path: Path) -> str:
    """What the file holds up to its last line end; empty where there is no file."""
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    return text[: text.rfind("\n") + 1]


def _read(path: Path, text: str, key: Mapping[str, Any]) -> list[Record]:
    try:
        rows = [json.loads(line) for line in text.rstrip("\n").split("\n")]
        found = rows[0]["key"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise OtherRun(f"{path} is not a file of this kind; name another one") from error
    wanted = json.loads(json.dumps(dict(key)))
    differing = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
    if differing:
        words = ", ".join(f"{k} {found.get(k)!r} (now {wanted.get(k)!r})" for k in differing)
        raise OtherRun(f"{path} is from another run: {words}; name another file")
    return rows[1:]
