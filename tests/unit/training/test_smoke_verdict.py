"""A smoke run is judged by what its head knows."""

from pathlib import Path

import pytest

from outrider.settings import BadSettings
from outrider.training.figures import Figures
from outrider.training.options import read_options
from outrider.training.pipeline import Result
from outrider.training.smoke import smoke_options, verdict
from outrider.training.terminal import Terminal


def result(accuracy: float, baseline: float = 0.02) -> Result:
    figures = Figures((3.0,), (accuracy,), 1 + accuracy, 1 + accuracy)
    return Result(Path("head"), Path("target"), figures, baseline, vocab_size=500)


@pytest.mark.parametrize(
    ("accuracy", "works"), [(0.3, True), (0.045, True), (0.03, False), (0.002, False)]
)
def test_clearly_above_chance_or_broken(accuracy, works):
    text, says_so = verdict(result(accuracy))
    assert says_so is works
    assert f"{accuracy:.1%}" in text
    assert ("it works" in text) is works
    assert "outrider train --work" in text


def test_knowing_only_the_commonest_token_is_not_enough():
    assert not verdict(result(0.3, baseline=0.2))[1]


def test_a_smoke_run_brings_its_own_target(tmp_path):
    options = read_options(["--smoke", "--work", str(tmp_path), "--model", "mine"])
    with pytest.raises(BadSettings, match="leave those options out"):
        smoke_options(options, Terminal(is_silent=True))
