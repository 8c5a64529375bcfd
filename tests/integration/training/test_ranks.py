"""Two processes on one machine train as one does: DDP and FSDP2 over gloo."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outrider.modeling.heads.checkpoints import TargetFiles, load_head
from outrider.training.smoke_target import VOCAB_SIZE, build_smoke_target
from outrider.training.training_log import read_log

TOLERANCE = 1e-5
SETTINGS = [
    *("--chain-steps", "3", "--draft-vocab", "300", "--epochs", "2", "--batch-tokens", "200"),
    *("--micro-tokens", "60", "--held-out", "0.1", "--measure-every", "3"),
    *("--head-dtype", "float32", "--rate", "0.003", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny target, and conversations for it."""
    folder = tmp_path_factory.mktemp("data")
    build_smoke_target(folder / "target", seed=1)
    rng = random.Random(0)
    rows = []
    for _ in range(40):
        ids = [rng.randrange(VOCAB_SIZE) for _ in range(rng.randrange(5, 50))]
        rows.append({"ids": ids, "p": rng.randrange(1, len(ids) - 2)})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "conversations.jsonl").write_text(text)
    return folder


def train(data: Path, work: Path, ranks: int, *more: str) -> Path:
    """Runs the command, under torchrun where there are several ranks."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [
        *(sys.executable, *(torchrun if ranks > 1 else []), "-m", "outrider.cli", "train"),
        *("--work", str(work), "--model", str(data / "target")),
        *("--conversations", str(data / "conversations.jsonl"), *SETTINGS, *more),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return work / "run"


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run in one process, features made along with training."""
    return train(data, tmp_path_factory.mktemp("alone"), 1, "--online")


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_two_ranks_have_the_curve_of_one(
    parallel: str, data: Path, alone: Path, tmp_path: Path
) -> None:
    together = train(data, tmp_path, 2, "--parallel", parallel, "--features", "stored")
    expected, records = read_log(alone / "log.jsonl"), read_log(together / "log.jsonl")
    assert len(records) == len(expected) > 10
    for record, one in zip(records, expected, strict=True):
        assert record["step"] == one["step"]
        assert record["losses"] == pytest.approx(one["losses"], abs=TOLERANCE)
        if "objective" in one:
            assert record["objective"] == pytest.approx(one["objective"], abs=TOLERANCE)
            assert record["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-4)
    head = load_file(together / "head" / "model.safetensors")
    for name, tensor in load_file(alone / "head" / "model.safetensors").items():
        torch.testing.assert_close(head[name], tensor, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_an_eagle1_head_is_trained_and_written(data: Path, tmp_path: Path) -> None:
    run = train(data, tmp_path, 1, "--kind", "eagle1", "--online")
    losses = [record["losses"][0] for record in read_log(run / "log.jsonl")]
    assert losses[-1] < losses[0]
    head = load_head(run / "head", TargetFiles(data / "target"))
    assert head.format == "eagle1"
    assert head.borrowed == ("embed_tokens.weight", "lm_head.weight")
