"""Checkpoints of a run: weights and AdamW's means as safetensors, where the run stood as JSON.

A folder per checkpoint, written under another name and renamed, so that a killed writer leaves
nothing that would be taken for one. Never a pickle.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file, save_file
from torch import Tensor

STATE_NAME = "state.safetensors"
PROGRESS_NAME = "progress.json"
KEPT = 2


class Checkpoint(NamedTuple):
    """What a run goes on from.

    Args:
        steps_done: Optimisation steps behind it.
        state: As `Optimiser.state` gives it.
    """

    steps_done: int
    state: dict[str, Tensor]


def write_checkpoint(
    folder: Path, steps_done: int, state: Mapping[str, Tensor], notes: Mapping[str, Any]
) -> None:
    """Writes one and removes all but the last two.

    Args:
        folder: Of all checkpoints.
        steps_done: Optimisation steps behind it.
        state: As `Optimiser.state` gives it.
        notes: What else to put down, as JSON values.
    """
    final = folder / f"step-{steps_done:08d}"
    part = folder / f".{final.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, part / STATE_NAME)
    progress = {"steps_done": steps_done, **notes}
    (part / PROGRESS_NAME).write_text(json.dumps(progress, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    part.rename(final)
    for old in _finished(folder)[:-KEPT]:
        shutil.rmtree(old)


def read_last_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest one, or None where there is none yet."""
    found = _finished(folder)
    if not found:
        return None
    progress = json.loads((found[-1] / PROGRESS_NAME).read_text(encoding="utf-8"))
    return Checkpoint(int(progress["steps_done"]), load_file(found[-1] / STATE_NAME))


def _finished(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"))
