"""From settings to a head that is ready to draft: weights, draft KV, warm caches.

Imported where a head is given, and only then: torch comes with it.
"""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from draft_service.drafters.draft_network import Guesses, NodeRows, Ranking, TrueRows
from draft_service.settings import DraftSettings
from draft_service.tensors.loading import device_of, pool_rows, target_folder, use_threads
from draft_service.tensors.torch_head import TorchHead
from outrider.modeling.dtypes import choose_dtype
from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead, TargetFiles, load_head
from outrider.modeling.heads.heads import build_head
from outrider.modeling.heads.pooled_attention import draft_layers
from outrider.modeling.linear_kernels import halve_linears, pack_linears
from outrider.protocol.decoding import Sampling
from outrider.protocol.features import FeatureLayout, TensorType
from outrider.protocol.messages import ID_BYTES, FeatureRows
from outrider.settings import BadSettings

WARM_UPS = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DraftingHead:
    """A head that is ready.

    Args:
        network: Drafts with it.
        method: Name of the method that uses it alone.
        layout: Features that it reads.
        target: Folder of the target that it was made for.
    """

    network: TorchHead
    method: str
    layout: FeatureLayout
    target: Path


def load_drafting_head(settings: DraftSettings) -> DraftingHead:
    """Loads the head that the settings name.

    Raises:
        BadSettings: Head or target are not there, do not fit each other, or the pool is too small.
    """
    use_threads(settings)
    started = time.monotonic()
    target = target_folder(settings)
    loaded = _load(settings, target)
    device = device_of(settings)
    dtype = _dtype(settings.head_dtype, device, loaded.notes.dtype)
    try:
        head = build_head(loaded.config, loaded.tensors, dtype, device)
    except ValueError as error:
        raise BadSettings(f"--head {settings.head}: {error}") from error
    assert isinstance(head, nn.Module)
    if not halve_linears(head):
        pack_linears(head)
    row_bytes = sum(layer.bytes_per_row for layer in draft_layers(loaded.config, dtype, device))
    slot_count = pool_rows(settings, row_bytes)
    network = TorchHead(head, slot_count, dtype, device)
    _warm_up(network)
    logger.info(
        "loaded the %s head %s (%s) in %.1f s", loaded.config.kind, settings.head, loaded.format,
        time.monotonic() - started,
    )  # fmt: skip
    layout = FeatureLayout(loaded.config.feature_layers, loaded.config.target_hidden_size)
    return DraftingHead(network, loaded.config.kind.value, layout, target)


def _load(settings: DraftSettings, target: Path) -> LoadedHead:
    try:
        return load_head(Path(settings.head).expanduser(), TargetFiles(target))
    except BadCheckpoint as error:  # names the head's or the target's folder
        raise BadSettings(f"--head, --target: {error}") from error


def _dtype(setting: str, device: str, stored: str) -> torch.dtype:
    dtype = choose_dtype(setting, on_cpu=device == "cpu")
    if isinstance(dtype, str):  # the checkpoint's own
        dtype = getattr(torch, stored)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _warm_up(network: TorchHead) -> None:
    """Runs what a round runs, so that the first one does not look slow."""
    size = network.feature_size
    zeros = bytes(size * TensorType.FLOAT32.size)
    features = FeatureRows(bytes(ID_BYTES), 0, 0, 1, size, TensorType.FLOAT32, zeros)
    ranking = Ranking(Sampling(), False, 4)
    for _ in range(WARM_UPS):
        (root,) = network.absorb([TrueRows(0, [0], [features], range(1), ranking)])
        assert isinstance(root, Guesses)
        for count in (1, 4):
            network.expand(
                [NodeRows(1, 1, [0] * count, [root.feedback] * count, [()] * count,
                          range(1 + count), ranking)]
            )  # fmt: skip
