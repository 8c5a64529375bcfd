"""Workers are killed and stopped under load, and no stream notices (B45)."""

import json
from pathlib import Path

import pytest

from outrider.evaluation.disturb import main
from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.tiny_model import TinyModel


def test_streams_survive_the_loss_of_any_worker(
    tiny_model: TinyModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TINY_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OUTRIDER_VERIFY_THREADS", "1")
    file = tmp_path / "outcome.json"
    flags = ["--blows", "3", "--streams", "6", "--prompts", "1", "--max-new-tokens", "120"]
    seed = ["--seed", "3"]  # kills a draft worker and a verify worker, stops a verify worker
    assert main(["--model", str(tiny_model.folder), *flags, *seed, "--json", str(file)]) == 0
    outcome = json.loads(file.read_text())["outcome"]
    kinds = {gaps["kind"] for gaps in outcome["gaps"]}
    assert kinds == {"draft worker, kill", "verify worker, kill", "verify worker, stop", "all"}
    assert outcome["moved"] > 0
