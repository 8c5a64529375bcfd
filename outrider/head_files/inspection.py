"""What `outrider inspect` finds out about a head: plain values, ready to be shown.

Knows no terminal; running the target is `canary_run.py`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from outrider.canary import CanaryResult
from outrider.head_files.canary_run import CanaryTarget
from outrider.modeling.heads.canary import CanaryText, measure
from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead, TargetFiles
from outrider.modeling.heads.checkpoints.config_file import read_config_file
from outrider.modeling.heads.checkpoints.errors import TargetNeeded
from outrider.modeling.heads.checkpoints.load import fit_to_target, read_head
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder
from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig
from outrider.modeling.heads.heads import TARGET_IDS, build_head
from outrider.modeling.heads.readings import other_readings

AS_READ: Final = "as read"

_NOMINAL_LAYERS: Final = 8  # of a target that nobody named: enough for the default layers
_OPTIONS: Final = (
    "fc_bias",
    "attention_bias",
    "qk_norm",
    "fc_norm",
    "norm_before_fc",
    "norm_before_residual",
    "norm_output",
)


@dataclass(frozen=True, slots=True)
class Inspection:
    """A head in figures.

    Args:
        head: As loaded.
        layers: The boundaries it reads, in words.
        options: Names of the switches that are on.
        parameter_count: Values of its own tensors, the vocabulary map left out.
        byte_count: Bytes of the same.
    """

    head: LoadedHead
    layers: str
    options: tuple[str, ...]
    parameter_count: int
    byte_count: int


def inspect_head(folder: Path, target: TargetFiles | None) -> Inspection:
    """Reads a head.

    Args:
        folder: Of the head.
        target: What it is to be fitted to, or None.

    Raises:
        BadCheckpoint: See `load_head`.
    """
    try:
        config, source = read_config_file(folder), SafetensorsFolder(folder)
        layers = None
        try:
            head = read_head(config, source, target.layer_count if target else None)
        except TargetNeeded:
            head = read_head(config, source, _NOMINAL_LAYERS)
            layers = "2, n // 2, n - 3 of the target's n (the default)"
        if target is not None:
            head = fit_to_target(head, target)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"head {folder}: {error}") from None
    own = [
        tensor for name, tensor in head.tensors.items() if name not in (TARGET_IDS, *head.borrowed)
    ]
    return Inspection(
        head=head,
        layers=layers or ", ".join(_layer_word(layer) for layer in head.config.feature_layers),
        options=tuple(name for name in _OPTIONS if getattr(head.config, name)),
        parameter_count=sum(tensor.numel() for tensor in own),
        byte_count=sum(tensor.nbytes for tensor in own),
    )


def compare_readings(
    head: LoadedHead, target: CanaryTarget, layer_count: int
) -> dict[str, CanaryResult]:
    """The canary's figures for a head as it was read, first, and for other readings of its file.

    Args:
        head: With all tensors.
        target: What it was made for.
        layer_count: Decoder layers of the target.
    """
    readings = {AS_READ: head.config, **other_readings(head.config, layer_count)}
    wanted = {layer for config in readings.values() for layer in config.feature_layers}
    captured = sorted(wanted, key=lambda layer: (layer == FINAL_NORM, layer))
    texts = target.texts(captured)
    return {name: _figures(head, config, texts, captured) for name, config in readings.items()}


def _figures(
    head: LoadedHead, config: HeadConfig, texts: Sequence[CanaryText], captured: Sequence[int]
) -> CanaryResult:
    places = torch.tensor([captured.index(layer) for layer in config.feature_layers])
    size = config.target_hidden_size
    own_texts = [
        replace(text, features=text.features.reshape(-1, len(captured), size)[:, places].flatten(1))
        for text in texts
    ]
    return measure(build_head(config, head.tensors, torch.float32, "cpu"), own_texts)


def _layer_word(layer: int) -> str:
    return "behind the final norm" if layer == FINAL_NORM else str(layer)
