"""What loading a head and loading a draft model have in common: where, as what, how many rows."""

from pathlib import Path

import torch

from draft_service.settings import DraftSettings
from outrider.embedded_model import EMBEDDED, resolve_model
from outrider.settings import BadSettings

MIB = 2**20
SMALLEST_POOL = 1024  # rows


def target_folder(settings: DraftSettings) -> Path:
    """Folder of the target; it need not exist.

    Raises:
        BadSettings: It is the embedded one, which is not complete.
    """
    is_embedded = settings.target.strip() in ("", EMBEDDED)
    return Path(resolve_model(EMBEDDED) if is_embedded else settings.target).expanduser()


def device_of(settings: DraftSettings) -> str:
    """Name of the torch device."""
    if settings.device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return settings.device


def use_threads(settings: DraftSettings) -> None:
    """Sets how many threads torch uses on a CPU."""
    if settings.threads:
        torch.set_num_threads(settings.threads)


def pool_rows(settings: DraftSettings, row_bytes: int) -> int:
    """Rows of draft KV that the settings allow.

    Args:
        settings: Of the worker.
        row_bytes: Bytes of one row over all layers, at least 1.

    Raises:
        BadSettings: They are too few.
    """
    slot_count = settings.draft_cache_mib * MIB // row_bytes
    if slot_count < SMALLEST_POOL:
        raise BadSettings(
            f"--draft-cache-mib {settings.draft_cache_mib} holds {slot_count} rows of {row_bytes} "
            f"bytes; at least {SMALLEST_POOL} are needed"
        )
    return slot_count
