"""Tensors of `.bin` and `.pt` files, for `outrider convert` alone; serving never reads them.

`torch.load` runs with `weights_only=True`: a file that holds more than tensors is refused.
"""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.tensor_files import Shapes

PICKLE_NAMES: Final = ("pytorch_model.bin", "training_state.pt")
_TRAINING_KEY: Final = "draft_state_dict"  # SpecForge's, beside the optimiser's state


class TorchFile:
    """The tensors of one file that `torch.save` wrote.

    Args:
        path: `.bin` or `.pt`; of a training checkpoint the head's part is taken.

    Raises:
        BadCheckpoint: It cannot be read, or holds more than tensors.
    """

    def __init__(self, path: Path) -> None:
        state = _load(path)
        state = state.get(_TRAINING_KEY, state)
        if not isinstance(state, Mapping) or not state:
            raise BadCheckpoint(f"{path.name} holds no named tensors")
        for name, value in state.items():
            if not isinstance(value, Tensor):
                raise BadCheckpoint(f"{path.name}: {name} is no tensor")
        self._tensors: Mapping[str, Tensor] = state
        self.shapes: Shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU, apart from others that share its memory."""
        return self._tensors[name].detach().clone()


def _load(path: Path) -> Mapping[str, Any]:
    try:
        # Only the newer layout, a zip file, can be mapped instead of read.
        state = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except pickle.UnpicklingError:
        raise BadCheckpoint(
            f"{path.name} holds more than tensors, which could run code, and is not read"
        ) from None
    except (OSError, RuntimeError, EOFError) as error:
        raise BadCheckpoint(f"{path.name} cannot be read: {error}") from None
    if not isinstance(state, Mapping):
        raise BadCheckpoint(f"{path.name} holds no named tensors")
    return state
