"""A target in parts over two gloo ranks is the whole target."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.modeling.tiny_models import plain_model
from verify_service.ranks import MEETING_VARIABLE

TIMEOUT_S = 100


def run_ranks(folders: Sequence[Path], meeting: Path, count: int = 2) -> list[tuple[int, str]]:
    """Exit status and output of each rank of the program."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.rank_program", *map(str, folders)],
            env=os.environ
            | {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                MEETING_VARIABLE: str(meeting),
                "OMP_NUM_THREADS": "1",
                "CUDA_VISIBLE_DEVICES": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(one.returncode, text) for one, text in zip(processes, outputs, strict=True)]


@pytest.mark.slow
def test_two_ranks_compute_what_one_process_does(tmp_path: Path) -> None:
    families = ("llama", "gemma2-softcap")
    for family in families:
        plain_model(family).save_pretrained(tmp_path / family)
    folders = [tmp_path / family for family in families]
    for status, output in run_ranks(folders, tmp_path / "meeting"):
        assert status == 0, output
        assert output.endswith("done\n")
