"""The files of a model folder that a router builds its own tokenizer from, as one archive."""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from smg_grpc_proto.generated import common_pb2

NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
)
CHUNK_BYTES = 512 * 2**10
_MADE = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive, whenever it is made


def tokenizer_archive(folder: Path) -> bytes:
    """A zip archive of those that are there.

    Raises:
        OSError: One cannot be read.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for name in NAMES:
            if (folder / name).is_file():
                info = zipfile.ZipInfo(name, _MADE)
                files.writestr(info, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def chunks_of(archive: bytes) -> Iterator[common_pb2.GetTokenizerChunk]:
    """The archive in parts; the last one has the digest of all."""
    digest = hashlib.sha256(archive).hexdigest()
    for start in range(0, len(archive), CHUNK_BYTES):
        is_last = start + CHUNK_BYTES >= len(archive)
        yield common_pb2.GetTokenizerChunk(
            data=archive[start : start + CHUNK_BYTES], sha256=digest if is_last else ""
        )
