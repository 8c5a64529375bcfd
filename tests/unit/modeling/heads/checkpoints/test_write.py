from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead, load_head
from outrider.modeling.heads.checkpoints.head_format import HeadNotes
from outrider.modeling.heads.checkpoints.write import document_of, write_head
from tests.unit.modeling.heads import tiny_heads
from tests.unit.modeling.heads.checkpoints import sample_heads as samples

EAGLE3_FORMATS = ["safeailab", "speculators", "specforge"]
NOTES = HeadNotes("org/tiny", 4096, "bfloat16")


def _assert_same(first: LoadedHead, second: LoadedHead) -> None:
    assert asdict(second.config) == asdict(first.config)
    assert second.borrowed == first.borrowed
    assert second.tensors.keys() == first.tensors.keys()
    for name, tensor in first.tensors.items():
        assert second.tensors[name].dtype == tensor.dtype
        assert torch.equal(second.tensors[name], tensor)


@pytest.mark.parametrize("goal", EAGLE3_FORMATS)
@pytest.mark.parametrize("origin", EAGLE3_FORMATS)
def test_a_head_survives_every_format(origin: str, goal: str, tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    before = load_head(samples.write(tmp_path / "a", *samples.SAMPLES[origin]()), target)
    write_head(before, goal, tmp_path / "b")
    after = load_head(tmp_path / "b", target)
    assert after.format == goal
    _assert_same(before, after)


def test_an_eagle1_head_survives_its_format(tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    before = load_head(samples.write(tmp_path / "a", *samples.eagle1()), target)
    write_head(before, "eagle1", tmp_path / "b")
    _assert_same(before, load_head(tmp_path / "b", target))


@pytest.mark.parametrize(
    ("format_name", "options"),
    [
        ("speculators", {"fc_norm": True, "norm_output": True, "norm_before_residual": True}),
        ("speculators", {"norm_before_fc": True, "qk_norm": True, "num_layers": 3}),
        ("speculators", {"attention_bias": True, "draft_vocab_size": tiny_heads.VOCAB}),
        ("specforge", {"fc_norm": True, "fc_bias": True}),
        ("specforge", {"norm_before_fc": True, "attention_bias": True}),
        ("specforge", {"feature_layers": (3, 6, 10)}),
        ("safeailab", {"fc_bias": True, "feature_layers": (0, 1, 10), "attention_bias": True}),
    ],
)
def test_options_survive_the_formats_that_know_them(
    format_name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    config = tiny_heads.eagle3_config(**{"feature_layers": (2, 5, 7), **options})
    before = LoadedHead(config, tiny_heads.random_tensors(config), format_name, NOTES)
    write_head(before, format_name, tmp_path / "b")
    target = samples.target(
        tmp_path / "target", hidden_size=tiny_heads.TARGET_SIZE, vocab_size=tiny_heads.VOCAB
    )
    _assert_same(before, load_head(tmp_path / "b", target))


@pytest.mark.parametrize(
    ("format_name", "options", "message"),
    [
        ("eagle1", {}, "an eagle3 head cannot be written in the eagle1 format"),
        ("safeailab", {"fc_norm": True}, "fc_norm is on, which the safeailab format"),
        ("safeailab", {"num_layers": 2}, "has one layer, this head 2"),
        ("specforge", {"qk_norm": True}, "qk_norm is on, which the specforge format"),
        ("specforge", {"norm_output": True}, "norm_output is on, which the specforge format"),
        ("specforge", {"feature_layers": (1, 2, 4)}, "cannot be written"),
        ("speculators", {"fc_bias": True}, r"no fc\.bias"),
    ],
)
def test_what_a_format_cannot_say_is_refused(
    format_name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadCheckpoint, match=message):
        document_of(tiny_heads.eagle3_config(**options), format_name, NOTES)


def test_an_eagle1_head_has_one_format() -> None:
    with pytest.raises(BadCheckpoint, match="an eagle1 head cannot be written in the speculators"):
        document_of(tiny_heads.eagle1_config(), "speculators", NOTES)


def test_what_is_borrowed_stays_out(tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    head = load_head(samples.write(tmp_path / "a", *samples.safeailab()), target)
    assert head.borrowed == ("embed_tokens.weight",)
    write_head(head, "safeailab", tmp_path / "b")
    assert load_head(tmp_path / "b", target).borrowed == ("embed_tokens.weight",)


def test_a_missing_tensor_is_not_written(tmp_path: Path) -> None:
    config = tiny_heads.eagle3_config()
    tensors = tiny_heads.random_tensors(config)
    del tensors["norm.weight"]
    with pytest.raises(BadCheckpoint, match=r"norm\.weight is missing"):
        write_head(LoadedHead(config, tensors, "", NOTES), "safeailab", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_an_index_of_what_lay_there_before_does_not_stay(tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target")
    head = load_head(samples.write(tmp_path / "a", *samples.safeailab()), target)
    (tmp_path / "a" / "model.safetensors.index.json").write_text("{}", encoding="utf-8")
    write_head(head, "specforge", tmp_path / "a")
    assert load_head(tmp_path / "a", target).format == "specforge"
