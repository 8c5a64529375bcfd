"""Captured features on disk: one safetensors file per shard, written whole or not at all.

Which conversations a shard holds is planned, not stored; a shard that lies there is finished work.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from outrider.training.captured import Captured, join


class FeatureStore:
    """The shards of one set of conversations.

    Args:
        folder: Of the files; made where missing.
        shards: Conversations of each shard, from `plan_shards`.
        lengths: Tokens of each conversation.
    """

    def __init__(self, folder: Path, shards: Sequence[range], lengths: Sequence[int]) -> None:
        self.shards = list(shards)
        self._folder = folder
        self._place: dict[int, tuple[int, slice]] = {}
        for number, shard in enumerate(self.shards):
            ends = accumulate(lengths[index] for index in shard)
            for index, end in zip(shard, ends, strict=True):
                self._place[index] = number, slice(end - lengths[index], end)
        self._open: dict[int, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def missing(self) -> list[int]:
        """Shards that are still to be written."""
        return [n for n in range(len(self.shards)) if not self._path(n).exists()]

    def write(self, number: int, captured: Captured) -> None:
        """Stores one shard: its conversations, laid end to end."""
        tensors = {name: tensor.cpu() for name, tensor in captured._asdict().items()}
        part = self._path(number).with_suffix(".part")
        save_file(tensors, part)
        part.rename(self._path(number))

    def read(self, indices: Sequence[int]) -> Captured:
        """Conversations by their indices, laid end to end in that order."""
        parts = []
        for index in indices:
            number, rows = self._place[index]
            file = self._file(number)
            parts.append(Captured(*(file.get_slice(name)[rows] for name in Captured._fields)))
        return join(parts)

    def remove(self, number: int) -> None:
        """Takes one shard away again."""
        self._open.pop(number, None)
        self._path(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Any:
        if number not in self._open:
            self._open[number] = safe_open(self._path(number), framework="pt")
        return self._open[number]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:05d}.safetensors"
