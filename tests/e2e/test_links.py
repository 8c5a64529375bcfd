"""Two hosts on one machine: ids over an encrypted link, and while its cable is pulled."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import TINY_ENVIRONMENT
from tests.e2e.tiny_model import SENTENCES, TinyModel
from tests.links.__main__ import EXIT_SKIPPED

pytestmark = pytest.mark.timeout(400)  # three processes are started on a machine that may be busy

START_TIMEOUT_S = 60.0
TIMEOUT_S = 300.0


@pytest.fixture
def command(tiny_model: TinyModel, tmp_path: Path) -> list[str]:
    rows = [
        {"id": place, "task": "alpaca", "turns": [text]} for place, text in enumerate(SENTENCES)
    ]
    (tmp_path / "alpaca.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = ["--data", str(tmp_path), "--tasks", "alpaca", "--max-new-tokens", "80"]
    return [sys.executable, "-m", "tests.links", "--model", str(tiny_model.folder), *data]


def environment() -> dict[str, str]:
    return os.environ | TINY_ENVIRONMENT | {"OUTRIDER_VERIFY_THREADS": "1"}


def namespaces() -> set[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines()}


def test_ids_survive_a_pulled_cable(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "links.json"
    quick = ["--delay-ms", "0", "--repeats", "1", "--pull-seconds", "2", "--json", str(file)]
    done = subprocess.run(
        [*command, *quick],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode == EXIT_SKIPPED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert {pull["method"] for pull in found["pulls"]} == {"none", "ngram"}
    for pull in found["pulls"]:
        assert pull["equal"] == pull["streams"] == len(SENTENCES)
        assert pull["moved"] > 0
        assert pull["silence_s"] > 1.9
    assert not [name for name in namespaces() if name.startswith("outrider-")]


def test_ctrl_c_leaves_no_namespace_behind(command: list[str]) -> None:
    before = namespaces() if os.geteuid() == 0 else set()
    process = subprocess.Popen(
        [*command, "--pulls", "0"], env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        if "SKIPPED" in first:
            process.wait(TIMEOUT_S)
            pytest.skip(first.strip())
        assert namespaces() - before
        process.send_signal(signal.SIGINT)
        assert process.wait(START_TIMEOUT_S) != 0
    finally:
        process.kill()
        process.communicate()
    assert namespaces() == before
