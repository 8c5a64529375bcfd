"""Task sets that evaluations run on: one JSON-lines file a task, `{id, task, turns}` a row.

Only the first turn is used. Knows nothing of models or tokens.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASKS = ("alpaca", "gsm8k", "humaneval", "mt_bench", "qa", "sum")

OWN_SET = Path(__file__).parent / "data"
SHARED_SET = Path(__file__).resolve().parents[3] / "shared" / "data" / "eval"


class BadPrompts(Exception):
    """A task set that cannot be used; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to the model.

    Args:
        task: Name of the task set.
        id: The row's own number, unique within the task.
        place: Position among all tasks' rows taken in turn, from 0; the same whatever part is run.
        text: What the user says.
    """

    task: str
    id: int
    place: int
    text: str

    @property
    def key(self) -> tuple[str, int]:
        """Task and id, unique in a run."""
        return (self.task, self.id)

    @property
    def digest(self) -> str:
        """Hash of the text, so that a stored answer is never taken for that of another text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def default_set() -> Path:
    """The shared task sets where the checkout has them beside it, else the project's own."""
    return SHARED_SET if SHARED_SET.is_dir() else OWN_SET


def load_prompts(
    folder: Path, tasks: Sequence[str] = TASKS, per_task: int | None = None
) -> list[Prompt]:
    """Reads the first rows of each task, taken in turn, so that any beginning covers all tasks.

    Args:
        folder: Holds `TASK.jsonl` files.
        tasks: Which ones.
        per_task: Most rows of each task, at least 1; None: all.

    Returns:
        Prompts in the order of their places.

    Raises:
        BadPrompts: A task is unknown, a file is missing, or a row is not of the shape above.
    """
    for task in tasks:
        if task not in TASKS:
            raise BadPrompts(f"unknown task {task}; there are {', '.join(TASKS)}")
    prompts = [p for task in tasks for p in _read_task(folder / f"{task}.jsonl", task)[:per_task]]
    return sorted(prompts, key=lambda prompt: prompt.place)


def _read_task(path: Path, task: str) -> list[Prompt]:
    try:
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadPrompts(f"{path}: {error}") from error
    prompts: list[Prompt] = []
    seen: set[int] = set()
    for index, line in enumerate(lines):
        row = _check_row(line, task, where=f"{path}, line {index + 1}")
        if row["id"] in seen:
            raise BadPrompts(f"{path}, line {index + 1}: id {row['id']} appears twice")
        seen.add(row["id"])
        place = index * len(TASKS) + TASKS.index(task)
        prompts.append(Prompt(task, row["id"], place, row["turns"][0]))
    if not prompts:
        raise BadPrompts(f"{path}: no rows")
    return prompts


def _check_row(line: str, task: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadPrompts(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadPrompts(f"{where}: not an object")
    if not isinstance(row.get("id"), int) or isinstance(row["id"], bool):
        raise BadPrompts(f"{where}: id must be a whole number, got {row.get('id')!r}")
    if row.get("task") != task:
        raise BadPrompts(f"{where}: task must be {task!r}, got {row.get('task')!r}")
    turns = row.get("turns")
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) and t for t in turns):
        raise BadPrompts(f"{where}: turns must be a list of at least one text")
    return row
