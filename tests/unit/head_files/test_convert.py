import json
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outrider import cli
from outrider.head_files.convert import run_convert
from outrider.modeling.heads.checkpoints import load_head
from tests.unit.modeling.heads.checkpoints import sample_heads as samples


def _pickled(folder: Path, name: str) -> Path:
    """A SafeAILab head as it is mostly published, or a training checkpoint."""
    config, tensors = samples.safeailab()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    is_training = name.endswith(".pt")
    torch.save({"draft_state_dict": tensors} if is_training else tensors, folder / name)
    return folder


@pytest.mark.parametrize("name", ["pytorch_model.bin", "training_state.pt"])
def test_a_pickle_becomes_safetensors(name: str, tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    source, dest = _pickled(tmp_path / "a", name), tmp_path / "b"
    assert run_convert(source, dest, "speculators", str(target.folder), force=False) == 0
    head = load_head(dest, target)
    assert head.config.feature_layers == (2, 5, 7)
    assert head.notes.verifier == "target"
    assert head.notes.context_limit == 4096
    assert "embed_tokens.weight" not in load_file(dest / "model.safetensors")


def test_a_file_may_be_named_itself(tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    source = _pickled(tmp_path / "a", "epoch_3.pt") / "epoch_3.pt"
    assert run_convert(source, tmp_path / "b", "safeailab", str(target.folder), force=False) == 0
    assert load_head(tmp_path / "b", target).format == "safeailab"


def test_no_target_is_needed_where_the_file_says_all(tmp_path: Path) -> None:
    source = samples.write(tmp_path / "a", *samples.specforge())
    assert run_convert(source, tmp_path / "b", "safeailab", "", force=False) == 0
    target = samples.target(tmp_path / "target")
    assert load_head(tmp_path / "b", target).config.feature_layers == (2, 5, 7)


def test_nothing_is_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = samples.write(tmp_path / "a", *samples.specforge())
    dest = tmp_path / "b"
    dest.mkdir()
    (dest / "config.json").write_text("mine", encoding="utf-8")
    assert run_convert(source, dest, "safeailab", "", force=False) == 1
    assert "holds config.json already; --force replaces it" in capsys.readouterr().err
    assert (dest / "config.json").read_text(encoding="utf-8") == "mine"
    assert run_convert(source, dest, "safeailab", "", force=True) == 0


def test_a_head_can_be_rewritten_in_its_place(tmp_path: Path) -> None:
    source = samples.write(tmp_path / "a", *samples.specforge())
    assert run_convert(source, source, "speculators", "", force=True) == 0
    assert load_head(source, samples.target(tmp_path / "target")).format == "speculators"


@pytest.mark.parametrize(
    ("format_name", "target", "message"),
    [
        ("gguf", "", "--format gguf: must be one of safeailab, eagle1, speculators, specforge"),
        ("safeailab", "", "does not say which layers.*--target"),
        ("eagle1", "target", "eagle3 head cannot be written in the eagle1 format"),
        ("safeailab", "gone", "no such folder"),
        ("safeailab", "other", "vocab_size 16; this one has 99"),
    ],
)
def test_what_cannot_be_is_one_line(
    format_name: str,
    target: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    samples.target(tmp_path / "target")
    samples.target(tmp_path / "other", vocab_size=99)
    source = samples.write(tmp_path / "a", *samples.safeailab())
    named = str(tmp_path / target) if target else ""
    assert run_convert(source, tmp_path / "b", format_name, named, force=False) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("outrider: ")
    assert re.search(message, line)
    assert not (tmp_path / "b").exists()


def test_the_command_passes_all_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = samples.write(tmp_path / "a", *samples.safeailab())
    target = samples.target(tmp_path / "target").folder
    words = ["convert", str(source), str(source), "--format", "specforge", "--target", str(target)]
    monkeypatch.setattr(sys, "argv", ["outrider", *words, "--force"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    assert load_head(source, samples.target(tmp_path / "target")).format == "specforge"
