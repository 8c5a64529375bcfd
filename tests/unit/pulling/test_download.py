import io
from pathlib import Path

import pytest

from outrider.pulling.download import MAX_CUTS, Source, download, url_opener
from outrider.pulling.errors import PullError, SourceRefused
from outrider.pulling.wheel_source import ConnectionSettings

DATA = bytes(range(256)) * 8
DIRECT = ConnectionSettings()


def _ignore(done: int, size: int | None) -> None:
    pass


def _no_sleep(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def test_cuts_without_a_new_byte_end_after_a_few(tmp_path: Path) -> None:
    opened: list[int] = []

    def always_the_first_ten(url: str, offset: int) -> Source:
        opened.append(offset)
        return Source(io.BytesIO(b"0123456789"), 0, 100)

    with pytest.raises(SourceRefused, match="it ends early"):
        download("https://a/b", tmp_path / "f.part", always_the_first_ten, _ignore, lambda _: None)
    assert len(opened) == 1 + MAX_CUTS


def test_a_full_disk_is_not_taken_for_a_cut(tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(28, "No space left on device")

    with pytest.raises(PullError, match="the disk is full"):
        download(
            "https://a/b",
            tmp_path / "f.part",
            lambda _, __: Source(Full(), 0, 9),
            _ignore,
            _no_sleep,
        )


def test_a_file_url_is_resumed_too(tmp_path: Path) -> None:
    source, part = tmp_path / "a b.whl", tmp_path / "f.part"
    source.write_bytes(DATA)
    part.write_bytes(DATA[:100])
    seen: list[int] = []
    download(source.as_uri(), part, url_opener(DIRECT), lambda done, _: seen.append(done))
    assert part.read_bytes() == DATA
    assert seen[0] == 100


def test_a_file_url_without_a_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match=r"gone\.whl cannot be read"):
        download((tmp_path / "gone.whl").as_uri(), tmp_path / "p", url_opener(DIRECT), _ignore)


def test_certificates_that_cannot_be_read_leave_it_to_pip(tmp_path: Path) -> None:
    opener = url_opener(ConnectionSettings(certificates=str(tmp_path / "none.pem")))
    with pytest.raises(SourceRefused, match="pip's certificates cannot be read"):
        download("https://index.invalid/w", tmp_path / "p", opener, _ignore, _no_sleep)
