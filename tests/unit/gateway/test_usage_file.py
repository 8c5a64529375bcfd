"""Usage survives a restart, whole or not at all, and a full disk stops nothing."""

import asyncio
from pathlib import Path

import pytest

from gateway.quotas import Quotas, Usage
from gateway.usage_file import BadUsageFile, UsageFile

USED = {"alice": Usage(20_000, 5, 50), "bob": Usage(19_999, 1, 1)}


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    file = UsageFile(path)
    assert file.read().usage == {}
    file.save(USED)
    assert UsageFile(path).read().usage == USED
    assert [one.name for one in tmp_path.iterdir()] == ["usage.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"alice": 1}', '{"alice": {"day": "x"}}', "\x00"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "usage.json"
    path.write_text(text)
    with pytest.raises(BadUsageFile, match="no record of usage"):
        UsageFile(path).read()
    assert path.read_text() == text


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadUsageFile, match="cannot be written: No such file"):
        UsageFile(tmp_path / "nowhere" / "usage.json").read()
    with pytest.raises(BadUsageFile, match="Is a directory"):
        UsageFile(tmp_path).read()


def test_a_file_that_can_no_longer_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = UsageFile(tmp_path / "gone" / "usage.json")
    (tmp_path / "gone").mkdir()
    file.read()
    (tmp_path / "gone" / "usage.json").unlink()
    (tmp_path / "gone").rmdir()
    file.save(USED)
    assert "usage of keys was not saved" in caplog.text
    (tmp_path / "gone").mkdir()
    file.save(USED)
    assert UsageFile(tmp_path / "gone" / "usage.json").read().usage == USED


@pytest.mark.asyncio
async def test_it_is_saved_once_more_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    file, quotas = UsageFile(path), Quotas()
    file.read()
    keeping = asyncio.create_task(file.keep(quotas))
    await asyncio.sleep(0)
    quotas.take("alice", 7, 0.0)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert UsageFile(path).read().usage == {"alice": Usage(0, 7, 7)}
