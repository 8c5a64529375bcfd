"""Workers are killed and stopped under load, and no stream notices (B45)."""

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.evaluation.disturb import main
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.tiny_model import SENTENCES, TinyModel

pytestmark = pytest.mark.timeout(400)  # workers are started anew several times


def disturbed(
    tiny_model: TinyModel, folder: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> dict[str, Any]:
    """What the command writes after a run that must pass."""
    for name, value in TINY_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OUTRIDER_VERIFY_THREADS", "1")
    rows = [
        {"id": place, "task": "alpaca", "turns": [text]} for place, text in enumerate(SENTENCES)
    ]
    (folder / "alpaca.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = folder / "outcome.json"
    data = ["--model", str(tiny_model.folder), "--data", str(folder), "--tasks", "alpaca"]
    assert main([*data, *flags, "--max-new-tokens", "150", "--json", str(file)]) == 0
    document: dict[str, Any] = json.loads(file.read_text())
    assert document["passed"]
    return document


def test_streams_survive_the_loss_of_any_worker(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--blows", "3", "--streams", "6", "--prompts", "4"]
    seed = ["--seed", "3"]  # kills a draft worker and a verify worker, stops a verify worker
    outcome = disturbed(tiny_model, tmp_path, monkeypatch, [*flags, *seed])["outcome"]
    kinds = {gaps["kind"] for gaps in outcome["gaps"]}
    assert kinds == {"draft worker, kill", "verify worker, kill", "verify worker, stop", "all"}
    assert outcome["moved"] > 0


def test_streams_do_not_notice_that_each_role_is_told_to_end(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--drains", "1", "--streams", "6", "--prompts", "4"]
    outcome = disturbed(tiny_model, tmp_path, monkeypatch, flags)["outcome"]
    assert [one["victim"] for one in outcome["endings"]] == ["draft", "gateway", "verify"]
    assert {one["status"] for one in outcome["endings"]} == {0}
    assert not any(outcome["left"].values())


def test_clients_that_leave_leave_nothing_behind(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B47: blocks, sessions and places are free within a second."""
    flags = ["--cancels", "60", "--streams", "8", "--draft-workers", "1", "--verify-workers", "1"]
    remains = disturbed(tiny_model, tmp_path, monkeypatch, flags)["remains"]
    assert remains["cancels"] > 0
    assert remains["clean_s"] is not None
    assert set(remains["grown_mib"]) == {"gateway", "draft", "verify"}
