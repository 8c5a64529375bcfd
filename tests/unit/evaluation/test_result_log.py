"""The file of a long run."""

from pathlib import Path

import pytest

from outrider.evaluation.result_log import OtherRun, ResultLog

KEY = {"model": "m", "limits": (1, 2)}


def test_a_run_continues_with_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    first = ResultLog(path, KEY)
    first.append({"text": "a\u2028b"})
    first.append({"n": 2})
    assert ResultLog(path, KEY).records == [{"text": "a\u2028b"}, {"n": 2}]


def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    ResultLog(path, KEY).append({"n": 1})
    with path.open("a") as file:
        file.write('{"n": ')
    log = ResultLog(path, KEY)
    log.append({"n": 2})
    assert ResultLog(path, KEY).records == [{"n": 1}, {"n": 2}]


def test_another_key_is_refused_with_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    ResultLog(path, KEY)
    with pytest.raises(OtherRun, match=r"model 'm' \(now 'n'\)"):
        ResultLog(path, KEY | {"model": "n"})
    assert ResultLog(path, {"model": "n"}, start_over=True).records == []


@pytest.mark.parametrize("text", ["hello\n", "[1]\n", '{"n": 1}\n'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(OtherRun, match="not a file of this kind"):
        ResultLog(path, KEY)
    assert path.read_text() == text
