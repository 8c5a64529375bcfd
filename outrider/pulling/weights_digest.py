"""A hash over the tensors of a safetensors file alone: names, types, shapes and bits.

The file's own hash also depends on the version of the library that wrote its header, so it cannot
say whether two machines have the same weights.
"""

import hashlib
import json
from pathlib import Path
from typing import Final

MAX_HEADER_BYTES: Final = 16 << 20

_CHUNK_BYTES = 1 << 20


def weights_digest(path: Path) -> str:
    """Hashes the tensors in the order of their names.

    Args:
        path: A safetensors file.

    Returns:
        SHA-256 in hexadecimal.

    Raises:
        ValueError: The file is not of that form.
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        if not 0 < header_size <= MAX_HEADER_BYTES:
            raise ValueError(f"{path} is not a safetensors file")
        try:
            header = json.loads(file.read(header_size))
        except ValueError:
            raise ValueError(f"{path} is not a safetensors file") from None
        for name in sorted(set(header) - {"__metadata__"}):
            tensor = header[name]
            start, end = tensor["data_offsets"]
            digest.update(f"{name} {tensor['dtype']} {tensor['shape']}\n".encode())
            file.seek(8 + header_size + start)
            left = end - start
            while left > 0 and (chunk := file.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                left -= len(chunk)
            if left:
                raise ValueError(f"{path} ends inside {name}")
    return digest.hexdigest()
