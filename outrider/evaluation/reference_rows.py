"""What the target alone generates, as stored rows: ids, runners-up and margins.

Knows neither torch nor how the rows are made; `reference.py` makes them.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from outrider.embedded_model import cache_folder
from outrider.evaluation.prompts import Prompt
from outrider.evaluation.result_log import Record, ResultLog

# Files of a model's folder that decide what it generates.
MODEL_FILES = (
    "*.safetensors",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


class BadReference(Exception):
    """A stored row that cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Greedy continuation of one prompt.

    Args:
        task: As of the prompt.
        id: As of the prompt.
        digest: As of the prompt; empty in rows from elsewhere.
        prompt_ids: Prompt after the chat template, `[num_prompt]`.
        ids: Generated ids, an end-of-sequence id included, `[num_new]`.
        runner_up: Second most likely id at each position, `[num_new]`.
        margins: Best logit less the second best, at each position, `[num_new]`.
        seconds: Time it took.

    Raises:
        BadReference: The lengths differ.
    """

    task: str
    id: int
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    runner_up: tuple[int, ...]
    margins: tuple[float, ...]
    seconds: float
    digest: str = ""

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.runner_up) == len(self.margins):
            raise BadReference(
                f"{self.task}/{self.id}: ids, runner_up and margins differ in length"
            )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Reads a stored row.

        Raises:
            BadReference: A field is missing, unknown, or breaks a rule of the class.
        """
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in record.items()
        }
        try:
            return cls(**values)
        except TypeError as error:
            raise BadReference(f"not a reference row: {error}") from error

    def to_record(self) -> Record:
        """The row as JSON values."""
        return asdict(self)


def reference_log(
    model: str, max_new_tokens: int, path: Path | None = None, *, start_over: bool = False
) -> ResultLog:
    """Opens the stored rows of a model and length.

    Args:
        model: Folder or hub name.
        max_new_tokens: Most generated ids of a row.
        path: The file; None: one in the user's cache, named after the key.
        start_over: True: an existing file is replaced.

    Raises:
        OtherRun: The file holds rows of another model or length.
    """
    key = {
        "kind": "reference",
        "model": model_digest(model),
        "dtype": "float32",
        "max_new_tokens": max_new_tokens,
    }
    if path is None:
        path = results_folder() / f"reference-{key['model']}-{max_new_tokens}.jsonl"
    return ResultLog(path, key, start_over=start_over)


def stored_references(
    log: ResultLog, prompts: Sequence[Prompt]
) -> dict[tuple[str, int], Reference]:
    """The rows that belong to these prompts, by the prompts' keys; others are left out."""
    wanted = {prompt.key: prompt.digest for prompt in prompts}
    rows = (Reference.from_record(record) for record in log.records)
    return {(row.task, row.id): row for row in rows if wanted.get((row.task, row.id)) == row.digest}


def model_digest(model: str) -> str:
    """Hash of all files that decide what a model generates; a hub name is hashed as it is."""
    digest = hashlib.sha256()
    folder = Path(model)
    if not folder.is_dir():
        digest.update(model.encode())
        return digest.hexdigest()[:16]
    for path in sorted(path for pattern in MODEL_FILES for path in folder.glob(pattern)):
        digest.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def results_folder() -> Path:
    """Where evaluations keep what took long to compute."""
    return cache_folder(os.environ) / "evaluation"
