"""The target as files: where it lies, and a mark by which its features are known again."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from outrider.embedded_model import MODEL_NAME, resolve_model
from outrider.modeling.heads.checkpoints import TargetFiles
from outrider.modeling.heads.checkpoints.config_file import CONFIG_NAME

MARK_VALUES = 4096  # of the language-model head that enter the mark


@dataclass(frozen=True, slots=True)
class TargetFolder:
    """A target.

    Args:
        folder: Holds it.
        name: What it is called in cards and files.
        files: The same folder, read by name.
    """

    folder: Path
    name: str
    files: TargetFiles

    @property
    def mark(self) -> str:
        """Hash of the configuration and of evenly spaced values of the language-model head."""
        digest = hashlib.sha256((self.folder / CONFIG_NAME).read_bytes())
        flat = self.files.lm_head().reshape(-1)
        picked = flat[:: max(1, flat.numel() // MARK_VALUES)].float().contiguous()
        digest.update(picked.numpy().tobytes())
        return digest.hexdigest()[:32]


def open_target(model: str) -> TargetFolder:
    """Finds a target, and fetches it where it is a hub name.

    Args:
        model: As `--model`.

    Raises:
        BadCheckpoint: Its files lack something.
        BadSettings: There is no such folder.
        PullError: The hub does not give it.
    """
    found = resolve_model(model)
    if isinstance(found, str):
        # Only here: the hub's client takes its time to import.
        from outrider.pulling.hub import fetch_hub_model  # noqa: PLC0415

        return TargetFolder(folder := fetch_hub_model(found), found, TargetFiles(folder))
    is_embedded = model.strip() in ("", "embedded")
    files = TargetFiles(found)
    return TargetFolder(found, MODEL_NAME if is_embedded else found.resolve().name, files)
