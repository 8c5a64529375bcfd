"""The evaluation commands against the shared service, as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.evaluation.prompts import OWN_SET
from outrider.evaluation.service import Service
from tests.e2e.tiny_model import TinyModel


def outrider(cache: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "outrider.cli", *words],
        env=os.environ | {"OUTRIDER_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def words(service: Service, tiny_model: TinyModel) -> list[str]:
    """The options that both commands share."""
    return [
        *("--address", service.address, "--model", str(tiny_model.folder), "--threads", "1"),
        *("--data", str(OWN_SET), "--tasks", "qa,alpaca", "--prompts", "2"),
        *("--max-new-tokens", "10"),
    ]


def test_exactness_passes_and_notices_a_changed_reference(words: list[str], tmp_path: Path) -> None:
    first = outrider(tmp_path, "exactness", *words, "--concurrency", "4")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "sampled, ngram, 4 at a time" in first.stdout
    [path] = (tmp_path / "evaluation").glob("reference-*.jsonl")
    head, *rows = map(json.loads, path.read_text().splitlines())
    assert len(rows) == 4
    rows[0]["ids"][3] += 1
    path.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows]))
    again = outrider(tmp_path, "exactness", *words, "--modes", "greedy", "--concurrency", "1")
    assert again.returncode == 1, again.stdout + again.stderr
    margin = f"{rows[0]['margins'][3]:.6f}"
    place = f"{rows[0]['task']}/{rows[0]['id']} at position 3"
    assert f"greedy, none, alone: {place}: expected {rows[0]['ids'][3]}" in again.stdout
    assert f"margin {margin}" in again.stdout


def test_bench_measures_in_turn_and_draws(words: list[str], tmp_path: Path) -> None:
    json_file, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    files = ("--json", str(json_file), "--picture", str(picture))
    done = outrider(
        tmp_path, "bench", *words, "--baseline", "transformers", "--dtype", "float32", *files
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(json_file.read_text())["results"]
    methods = {cell["method"]: cell["summary"] for cell in results if cell["task"] == "qa"}
    assert set(methods) == {"none", "ngram", "transformers"}
    assert methods["none"]["tokens_per_round"] == 1.0
    assert len({summary["tokens"] for summary in methods.values()}) == 1
    assert picture.read_text().startswith("<svg")


def test_an_address_where_nothing_listens_is_one_line(words: list[str], tmp_path: Path) -> None:
    done = outrider(tmp_path, "bench", *words, "--address", "127.0.0.1:1")
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
