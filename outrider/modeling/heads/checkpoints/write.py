"""Writes a head in any of the four formats: `config.json` and `model.safetensors`."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from outrider.modeling.heads.checkpoints.config_file import CONFIG_NAME
from outrider.modeling.heads.checkpoints.detection import FORMATS
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.head_format import HeadNotes
from outrider.modeling.heads.checkpoints.load import LoadedHead
from outrider.modeling.heads.checkpoints.tensor_check import check_tensors
from outrider.modeling.heads.checkpoints.tensor_files import INDEX_NAME, WEIGHTS_NAME
from outrider.modeling.heads.checkpoints.vocabulary import d2t_of, t2d_of
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.modeling.heads.heads import TARGET_IDS


def document_of(config: HeadConfig, format_name: str, notes: HeadNotes) -> dict[str, Any]:
    """The values of a head's `config.json`.

    Args:
        config: The head.
        format_name: One of `FORMATS`.
        notes: What else to write.

    Raises:
        BadCheckpoint: The format is for another kind of head, or has no way to say something.
    """
    wanted = HeadKind.EAGLE1 if format_name == HeadKind.EAGLE1 else HeadKind.EAGLE3
    if config.kind is not wanted:
        raise BadCheckpoint(f"an {config.kind} head cannot be written in the {format_name} format")
    return FORMATS[format_name].document(config, notes)


def file_tensors(
    config: HeadConfig, tensors: Mapping[str, Tensor], format_name: str
) -> dict[str, Tensor]:
    """A head's own tensors under the names of a format, the vocabulary map as offsets.

    Args:
        config: The head.
        tensors: In normal form, `target_ids` included; what is to be borrowed may be absent.
        format_name: One of `FORMATS`.

    Raises:
        BadCheckpoint: A tensor is missing, unknown or misshaped.
    """
    weights = {name: tensor for name, tensor in tensors.items() if name != TARGET_IDS}
    check_tensors(config, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    named = {
        FORMATS[format_name].file_name(name): tensor.contiguous()
        for name, tensor in weights.items()
    }
    if TARGET_IDS in tensors:
        target_ids = tensors[TARGET_IDS]
        named["d2t"] = d2t_of(target_ids)
        named["t2d"] = t2d_of(target_ids, config.vocab_size)
    return named


def write_head(head: LoadedHead, format_name: str, folder: Path) -> None:
    """Writes a head's own tensors and its configuration; files of these names are replaced.

    Args:
        head: What is borrowed from its target stays out.
        format_name: One of `FORMATS`.
        folder: Made where it is missing.

    Raises:
        BadCheckpoint: The format cannot hold the head.
        OSError: The folder cannot be written.
    """
    document = document_of(head.config, format_name, head.notes)
    own = {name: tensor for name, tensor in head.tensors.items() if name not in head.borrowed}
    tensors = file_tensors(head.config, own, format_name)
    folder.mkdir(parents=True, exist_ok=True)
    # Under other names first: a killed writer leaves no half file that loads.
    weights, config = folder / f".{WEIGHTS_NAME}.part", folder / f".{CONFIG_NAME}.part"
    save_file(tensors, weights, metadata={"format": "pt"})
    config.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    (folder / INDEX_NAME).unlink(missing_ok=True)  # of what lay here before
    os.replace(weights, folder / WEIGHTS_NAME)
    os.replace(config, folder / CONFIG_NAME)
