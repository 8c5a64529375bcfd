"""The files of a run: where each stage keeps its work, and what that work depends on.

Work that was made with other settings is never mixed in: the stage says what differs and stops.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from outrider.evaluation.result_log import OtherRun, ResultLog
from outrider.settings import BadSettings
from outrider.training.conversation import BadConversations, Conversation, read_row

Key = Mapping[str, Any]


class WorkFolder:
    """A folder that several heads can share: data once, a sub-folder for each run.

    Args:
        root: Made where missing.
        run: Name of the sub-folder.
    """

    def __init__(self, root: Path, run: str) -> None:
        self.root, self.run = root, root / run
        self.user_turns = root / "user_turns.jsonl"
        self.prompts = root / "prompts.jsonl"
        self.answers = root / "answers.jsonl"
        self.conversations = root / "conversations.jsonl.gz"
        self.features = root / "features"
        self.checkpoints = self.run / "checkpoints"
        self.log = self.run / "log.jsonl"
        self.curves = self.run / "curves.svg"
        self.head = self.run / "head"

    def prepare(self) -> None:
        """Makes the folders."""
        self.run.mkdir(parents=True, exist_ok=True)


def open_log(path: Path, key: Key) -> ResultLog:
    """A file of records that goes on where an earlier run stopped.

    Raises:
        BadSettings: It was begun with other settings.
    """
    try:
        return ResultLog(path, key)
    except OtherRun as error:
        raise BadSettings(f"{error}, or another --work") from error


def claim(folder: Path, key: Key) -> None:
    """Marks a folder as made with these settings.

    Raises:
        BadSettings: It was made with others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "key.json"
    wanted = json.loads(json.dumps(dict(key)))
    if not path.exists():
        _write_whole(path, (json.dumps(wanted, indent=1) + "\n").encode())
        return
    found = json.loads(path.read_text(encoding="utf-8"))
    differing = sorted(k for k in {*found, *wanted} if found.get(k) != wanted.get(k))
    if differing:
        words = ", ".join(f"{k} {found.get(k)!r} (now {wanted.get(k)!r})" for k in differing)
        raise BadSettings(f"{folder} was made with {words}; remove it, or name another")


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines, written whole or not at all; gzipped where the name says so."""
    text = "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows).encode()
    _write_whole(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def read_rows(path: Path) -> Iterator[tuple[object, str]]:
    """Each row of a JSON-lines file, gzipped or not, and its place for messages.

    Raises:
        BadConversations: The file is not there, or a line is not JSON.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadConversations(f"{path}: {error}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadConversations(f"{where}: not JSON: {error}") from error
        yield row, where


def read_conversations(path: Path, vocab_size: int) -> list[Conversation]:
    """All conversations of a `{ids, p}` file.

    Raises:
        BadConversations: A row is not of that shape.
    """
    return [read_row(row, vocab_size, where) for row, where in read_rows(path)]


def write_conversations(path: Path, conversations: Iterable[Conversation]) -> None:
    """The inverse of `read_conversations`."""
    write_rows(path, ({"ids": c.token_ids.tolist(), "p": c.prompt_length} for c in conversations))


def _write_whole(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.rename(path)
