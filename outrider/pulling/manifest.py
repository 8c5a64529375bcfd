"""The list of a pulled model's files with their sizes and hashes; its presence means "complete".

Refuses to know where the files came from. Sizes are checked at every start, hashes on request.
"""

import hashlib
import json
from pathlib import Path
from typing import Final

MANIFEST_NAME: Final = "manifest.json"

_FORMAT = 1
_CHUNK_BYTES = 1 << 20


def write_manifest(folder: Path, source: str) -> None:
    """Lists the files of a folder, last of all steps.

    Args:
        folder: Holds the finished files.
        source: Where they come from, for people to read.

    Raises:
        OSError: The folder cannot be read or written.
    """
    files = {
        path.name: {"size": path.stat().st_size, "sha256": file_sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST_NAME
    }
    text = json.dumps({"format": _FORMAT, "source": source, "files": files}, indent=2)
    (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


def missing_files(folder: Path, with_hashes: bool = False) -> str | None:
    """Says what a folder lacks.

    Args:
        folder: A folder that `write_manifest` has finished, or not.
        with_hashes: True: every byte is read and compared too.

    Returns:
        None where all is there, else the first thing that is wrong, in words.
    """
    try:
        manifest = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        files = dict(manifest["files"])
        if manifest["format"] != _FORMAT or not files:
            return f"{folder / MANIFEST_NAME} is of another version"
        for name, expected in files.items():
            path = folder / name
            if path.stat().st_size != expected["size"]:
                return f"{path} has {path.stat().st_size} bytes, not {expected['size']}"
            if with_hashes and file_sha256(path) != expected["sha256"]:
                return f"{path} has changed since it was pulled"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder / MANIFEST_NAME} cannot be read: {error}"
    return None


def file_sha256(path: Path) -> str:
    """Hash of a file's bytes, in hexadecimal.

    Raises:
        OSError: The file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
