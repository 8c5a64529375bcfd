"""The safetensors files of a folder: names and shapes at once, tensors one by one when asked.

Refuses pickles: nothing here ever runs code of a checkpoint.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from safetensors import SafetensorError, safe_open
from torch import Tensor

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint

WEIGHTS_NAME: Final = "model.safetensors"
INDEX_NAME: Final = "model.safetensors.index.json"

Shapes = Mapping[str, tuple[int, ...]]


class TensorSource(Protocol):
    """Named tensors that are read when asked for.

    Attributes:
        shapes: Shape of each.
    """

    shapes: Shapes

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU, in the dtype it is stored in."""


class SafetensorsFolder:
    """All tensors of a folder: of one file, or of the files that an index lists.

    Args:
        folder: Holds `model.safetensors`, or an index, or a single safetensors file.

    Raises:
        BadCheckpoint: There is no such file, or one is damaged or lacks what the index promises.
    """

    def __init__(self, folder: Path) -> None:
        self._paths: dict[str, Path] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        index = _read_index(folder)
        for path in _weight_files(folder, index):
            for name, shape in _header(path).items():
                if index is None or index.get(name) == path.name:
                    self._paths[name], shapes[name] = path, shape
        if index is not None and (missing := sorted(set(index) - set(shapes))):
            raise BadCheckpoint(
                f"{missing[0]} is not in {index[missing[0]]}, where the index has it"
            )
        self.shapes: Shapes = shapes

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU, in the dtype it is stored in."""
        with safe_open(self._paths[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor


def _read_index(folder: Path) -> dict[str, str] | None:
    path = folder / INDEX_NAME
    if not path.is_file():
        return None
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadCheckpoint(f"{INDEX_NAME} is not an index of tensors") from None
    for name in weight_map.values():
        # A name with a path in it would read files outside the folder.
        if not isinstance(name, str) or Path(name).name != name:
            raise BadCheckpoint(f"{INDEX_NAME} names a file outside its folder: {name!r}")
    return dict(weight_map)


def _weight_files(folder: Path, index: Mapping[str, str] | None) -> list[Path]:
    if index is not None:
        return [folder / name for name in sorted(set(index.values()))]
    if (folder / WEIGHTS_NAME).is_file():
        return [folder / WEIGHTS_NAME]
    found = sorted(folder.glob("*.safetensors"))
    if len(found) > 1:
        raise BadCheckpoint(f"{len(found)} safetensors files and no {INDEX_NAME}")
    if not found:
        raise BadCheckpoint(f"there is no {WEIGHTS_NAME}{_pickle_hint(folder)}")
    return found


def _pickle_hint(folder: Path) -> str:
    pickles = sorted(path.name for path in folder.glob("*") if path.suffix in (".bin", ".pt"))
    if not pickles:
        return ""
    return (
        f"; {pickles[0]} may hold code and is not read here: `outrider convert` turns it into one"
    )


def _header(path: Path) -> dict[str, tuple[int, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise BadCheckpoint(f"{path.name} cannot be read: {error}") from None
