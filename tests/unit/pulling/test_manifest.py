from pathlib import Path

import pytest

from outrider.pulling.manifest import MANIFEST_NAME, missing_files, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"aaaa")
    (tmp_path / "b").write_bytes(b"")
    write_manifest(tmp_path, "test")
    return tmp_path


def test_a_finished_folder_lacks_nothing(folder: Path) -> None:
    assert missing_files(folder) is None
    assert missing_files(folder, with_hashes=True) is None


def test_a_missing_file_and_a_short_file_are_named(folder: Path) -> None:
    (folder / "a").write_bytes(b"aaa")
    assert missing_files(folder) == f"{folder / 'a'} has 3 bytes, not 4"
    (folder / "a").unlink()
    assert missing_files(folder) == f"{folder / 'a'} is missing"


def test_changed_bytes_of_the_same_size_show_only_by_hash(folder: Path) -> None:
    (folder / "a").write_bytes(b"aaab")
    assert missing_files(folder) is None
    assert (
        missing_files(folder, with_hashes=True) == f"{folder / 'a'} has changed since it was pulled"
    )


def test_no_manifest_means_not_finished(folder: Path) -> None:
    (folder / MANIFEST_NAME).unlink()
    assert missing_files(folder) == f"{folder / MANIFEST_NAME} is missing"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 9, "files": {"a": {}}}', '{"files": 3}']
)
def test_a_spoiled_manifest_is_not_finished(text: str, folder: Path) -> None:
    (folder / MANIFEST_NAME).write_text(text)
    assert missing_files(folder) is not None
