import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from outrider import cli
from outrider.canary import CanaryResult
from outrider.head_files import inspect
from outrider.head_files.inspect import better_reading, run_inspect
from outrider.head_files.inspection import AS_READ
from outrider.modeling.heads.canary import CanaryText
from outrider.modeling.heads.head_config import FINAL_NORM
from tests.unit.modeling.heads.checkpoints import sample_heads as samples
from tests.unit.modeling.heads.checkpoints.sample_heads import SIZE, VOCAB

LENGTH = 20


class _OneWordTarget:
    """A target that always says the same word; its features say which boundary they are of."""

    word = 0
    asked: Sequence[int] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def texts(self, feature_layers: Sequence[int]) -> list[CanaryText]:
        _OneWordTarget.asked = feature_layers
        features = torch.cat(
            [torch.full((LENGTH, SIZE), float(layer)) for layer in feature_layers], dim=1
        )
        words = torch.full((LENGTH,), self.word)
        return [CanaryText(torch.arange(LENGTH) % VOCAB, features, words)]


@pytest.fixture
def _one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "CanaryTarget", _OneWordTarget)


def _head_that_says(word: int, folder: Path) -> Path:
    """A head whose output layer drowns all tokens but one."""
    config, tensors = samples.specforge()
    tensors["norm.weight"] = torch.zeros(SIZE).bfloat16()
    tensors["lm_head.weight"].zero_()
    # With all logits equal the first draft token wins; make it stand for the word.
    tensors["d2t"][0] = word
    tensors["d2t"][1:] = torch.tensor([8, 8, 8, 8, 8])
    del tensors["t2d"]
    return samples.write(folder, config, tensors)


def test_a_head_is_described_without_a_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = samples.write(tmp_path / "head", *samples.speculators())
    assert run_inspect(head, "", as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "speculators"
    assert document["verifier"] == "org/tiny"
    assert document["layers"] == "2, 5, 7"
    assert document["parameters"] == sum(
        tensor.numel()
        for name, tensor in samples.speculators()[1].items()
        if name not in ("d2t", "t2d")
    )
    assert document["bytes"] == 2 * document["parameters"]
    assert "canary" not in document


def test_default_layers_are_said_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = samples.write(tmp_path / "head", *samples.safeailab())
    assert run_inspect(head, "", as_json=False) == 0
    assert "2, n // 2, n - 3 of the target's n" in capsys.readouterr().out


def test_an_eagle1_head_reads_what_lies_behind_the_final_norm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = samples.write(tmp_path / "head", *samples.eagle1())
    assert run_inspect(head, "", as_json=False) == 0
    printed = capsys.readouterr().out
    assert "behind the final norm" in printed
    assert "fc_bias" in printed


@pytest.mark.usefixtures("_one_word")
def test_the_canary_compares_readings_of_one_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = _head_that_says(0, tmp_path / "head")
    target = samples.target(tmp_path / "target")
    assert run_inspect(head, str(target.folder), as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["target"]["lends"] == ["embed_tokens.weight"]
    assert document["canary"][AS_READ]["first_step"] == 1.0
    assert set(document["canary"]) == {
        AS_READ,
        "layers one lower",
        "layers one higher",
        "norm_output on",
        "norm_before_residual on",
    }
    assert list(_OneWordTarget.asked) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.usefixtures("_one_word")
def test_the_last_feature_is_asked_for_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = samples.write(tmp_path / "head", *samples.eagle1())
    run_inspect(head, str(samples.target(tmp_path / "target").folder), as_json=False)
    assert list(_OneWordTarget.asked) == [samples.LAYERS, FINAL_NORM]
    assert "canary: share of 19 tokens guessed" in capsys.readouterr().out


@pytest.mark.usefixtures("_one_word")
def test_a_useless_head_is_shown_and_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = _head_that_says(5, tmp_path / "head")
    target = samples.target(tmp_path / "target")
    assert run_inspect(head, str(target.folder), as_json=False) == 1
    printed = capsys.readouterr()
    assert "0.0%" in printed.out
    assert printed.err.splitlines()[-1].startswith("outrider: of 19 tokens the head guessed 0%")


def test_a_pickle_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = samples.write(tmp_path / "head", *samples.safeailab())
    (head / "model.safetensors").rename(head / "pytorch_model.bin")
    assert run_inspect(head, "", as_json=False) == 1
    assert "outrider convert" in capsys.readouterr().err


def test_a_missing_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_inspect(tmp_path / "gone", "", as_json=False) == 1
    assert capsys.readouterr().err == (
        f"outrider: head {tmp_path / 'gone'}: config.json cannot be read: "
        "No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("other", "expected"),
    [((0.30, 0.30), None), ((0.36, 0.32), None), ((0.40, 0.36), "other"), ((0.34, 0.6), "other")],
)
def test_another_reading_is_named_where_it_does_notably_better(
    other: tuple[float, float], expected: str | None
) -> None:
    figures = {AS_READ: CanaryResult(0.35, 0.30, 256), "other": CanaryResult(*other, 256)}
    assert better_reading(figures) == expected


def test_the_command_passes_all_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = samples.write(tmp_path / "head", *samples.speculators())
    monkeypatch.setattr(sys, "argv", ["outrider", "inspect", str(head), "--json"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    assert json.loads(capsys.readouterr().out)["format"] == "speculators"
