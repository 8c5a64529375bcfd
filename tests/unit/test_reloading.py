"""Files are taken into use when they change or are asked for; bad ones are named and left."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from outrider.reloading import Reloadable, Reloader


class Numbers:
    """Loads a number from each of two files; the last good pair stays."""

    def __init__(self, folder: Path) -> None:
        self.paths = (folder / "one", folder / "two")
        self.loads = 0
        self.loaded = threading.Event()
        for path in self.paths:
            path.write_text("1")
        self.values = [1, 1]
        self.reloader = Reloader([Reloadable("numbers", self.paths, self.load)])

    def load(self) -> None:
        self.loads += 1
        self.loaded.set()
        try:
            values = [int(path.read_text()) for path in self.paths]
        except OSError as error:
            raise ValueError(str(error)) from None
        if values[0] != values[1]:
            raise ValueError(f"{values[0]} is not {values[1]}")
        self.values = values


def test_nothing_is_loaded_that_has_not_changed(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    numbers.reloader.look()
    assert numbers.loads == 0
    numbers.reloader.look(is_asked=True)
    assert numbers.loads == 1


def test_files_that_change_one_after_the_other_are_loaded_when_they_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = Numbers(tmp_path)
    numbers.paths[0].write_text("22")
    numbers.reloader.look()
    assert numbers.values == [1, 1]
    assert "numbers stay as they were: 22 is not 1" in caplog.text
    numbers.reloader.look()
    assert numbers.loads == 1  # the same is not complained of twice
    numbers.paths[1].write_text("22")
    numbers.reloader.look()
    assert numbers.values == [22, 22]


def test_a_file_may_go_and_come_back(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    numbers.paths[0].unlink()
    numbers.reloader.look()
    assert numbers.values == [1, 1]
    for path in numbers.paths:
        path.write_text("33")
    numbers.reloader.look()
    assert numbers.values == [33, 33]


def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path) -> None:
    """How Kubernetes replaces what it mounts."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one").write_text("1")
    (tmp_path / "now").symlink_to("old")
    part = Reloadable("link", (tmp_path / "now" / "one",), lambda: None)
    before = part.signature()
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(tmp_path / "now")
    assert part.signature() != before


@pytest.mark.asyncio
async def test_sighup_loads_at_once_what_is_there(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path)
    watching = asyncio.create_task(numbers.reloader.watch())
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGHUP)
    assert await asyncio.to_thread(numbers.loaded.wait, 5)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.asyncio
async def test_where_there_is_nothing_to_load_sighup_is_left_alone() -> None:
    watching = asyncio.create_task(Reloader([]).watch())
    await asyncio.sleep(0)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    assert not watching.done()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
