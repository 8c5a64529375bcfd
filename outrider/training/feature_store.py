"""Captured features on disk: safetensors files that are written whole or not at all.

A file says which conversations it holds, so whatever lies in the folder is finished work, in which
order and by how many ranks it may have been done, and more conversations only add files.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from outrider.training.captured import Captured, join

_LENGTHS = "lengths"  # metadata: JSON of rows by conversation, in their order


class FeatureStore:
    """The features of some conversations, each known by its digest.

    Args:
        folder: Of the files; made where missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place: dict[str, tuple[Path, slice]] = {}
        self._open: dict[Path, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.look()

    def __contains__(self, digest: str) -> bool:
        return digest in self._place

    def look(self) -> None:
        """Takes notice of files that others have written."""
        known = {path for path, _ in self._place.values()}
        for path in sorted(self._folder.glob("*.safetensors")):
            if path not in known:
                self._note(path, json.loads(self._file(path).metadata()[_LENGTHS]))

    def write(self, lengths: Mapping[str, int], captured: Captured) -> None:
        """Stores conversations that were laid end to end.

        Args:
            lengths: Rows of each, by digest.
            captured: All of them.
        """
        name = hashlib.blake2b("".join(lengths).encode(), digest_size=16).hexdigest()
        path = self._folder / f"{name}.safetensors"
        part = path.with_suffix(".part")
        tensors = {name: tensor.cpu() for name, tensor in captured._asdict().items()}
        save_file(tensors, part, metadata={_LENGTHS: json.dumps(dict(lengths))})
        part.rename(path)
        self._note(path, lengths)

    def read(self, digests: Sequence[str]) -> Captured:
        """Conversations by their digests, laid end to end in that order."""
        parts = []
        for digest in digests:
            path, rows = self._place[digest]
            file = self._file(path)
            parts.append(Captured(*(file.get_slice(name)[rows] for name in Captured._fields)))
        return join(parts)

    def remove(self, digest: str) -> None:
        """Takes the file that holds a conversation away again."""
        path, _ = self._place[digest]
        self._place = {one: at for one, at in self._place.items() if at[0] != path}
        self._open.pop(path, None)
        path.unlink()

    def _note(self, path: Path, lengths: Mapping[str, int]) -> None:
        begin = 0
        for digest, length in lengths.items():
            self._place[digest] = path, slice(begin, begin + length)
            begin += length

    def _file(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = safe_open(path, framework="pt")
        return self._open[path]
