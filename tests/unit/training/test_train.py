"""The command ends with a status and one line, never with a traceback."""

import sys

import pytest

from outrider.training import train
from outrider.training.smoke_target import build_smoke_target


@pytest.fixture(autouse=True)
def own_signals(monkeypatch):
    monkeypatch.setattr(train, "end_with_sigterm", lambda: None)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    build_smoke_target(folder, seed=1)
    return str(folder)


def run(capsys, *argv):
    status = train.main(argv)
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    return status, captured.err


def test_a_bad_setting_is_78(capsys):
    status, error = run(capsys, "--batch-tokens", "none")
    assert status == 78
    assert "--batch-tokens" in error


def test_several_ranks_need_several_processes(capsys, tmp_path, target):
    status, error = run(capsys, "--work", str(tmp_path), "--model", target, "--parallel", "ddp")
    assert status == 78
    assert "torchrun" in error


def test_deepspeed_that_is_not_there_is_named_before_anything_is_done(
    capsys, tmp_path, target, monkeypatch
):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    status, error = run(
        capsys, "--work", str(tmp_path), "--model", target, "--parallel", "deepspeed"
    )
    assert status == 78
    assert "outrider[deepspeed]" in error
    assert not any(tmp_path.iterdir())


def test_a_format_that_cannot_hold_the_head_is_told_at_once(capsys, tmp_path, target):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"ids": [2, 5, 6, 7, 8], "p": 2}\n{"ids": [2, 9, 9, 7, 8], "p": 2}\n')
    given = ("--work", str(tmp_path), "--model", target, "--conversations", str(rows))
    status, error = run(capsys, *given, "--format", "eagle1")
    assert status == 1
    assert "eagle1" in error
    assert run(capsys, *given, "--format", "pickle")[0] == 1
    status, error = run(capsys, *given, "--feature-layers", "1,2,9")
    assert status == 1
    assert "boundary 9" in error


def test_conversations_that_are_not_there(capsys, tmp_path, target):
    missing = str(tmp_path / "missing.jsonl")
    status, error = run(
        capsys, "--work", str(tmp_path), "--model", target, "--conversations", missing
    )
    assert status == 1
    assert missing in error
