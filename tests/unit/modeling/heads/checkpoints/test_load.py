from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead, TargetFiles, load_head
from outrider.modeling.heads.head_config import FINAL_NORM, HeadKind
from outrider.modeling.heads.heads import build_head
from tests.unit.modeling.heads.checkpoints import sample_heads as samples
from tests.unit.modeling.heads.checkpoints.sample_heads import SIZE, VOCAB

EMBEDDING, OUTPUT_HEAD = "embed_tokens.weight", "lm_head.weight"


def _load(
    folder: Path,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    target: TargetFiles | None = None,
) -> LoadedHead:
    target = target or samples.target(folder / "target")
    return load_head(samples.write(folder / "head", config, tensors), target)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_every_format_is_told_apart_and_runs(name: str, tmp_path: Path) -> None:
    head = _load(tmp_path, *samples.SAMPLES[name]())
    assert head.format == name
    build_head(head.config, head.tensors, torch.float32, "cpu")


def test_one_head_in_three_formats_is_one_head(tmp_path: Path) -> None:
    heads = [
        _load(tmp_path / name, *samples.SAMPLES[name]())
        for name in ("safeailab", "speculators", "specforge")
    ]
    first = heads[0]
    assert first.config.feature_layers == (2, 5, 7)
    assert first.tensors["target_ids"].tolist() == samples.TARGET_IDS
    for other in heads[1:]:
        assert asdict(other.config) == asdict(first.config)
        assert other.tensors.keys() == first.tensors.keys()
        assert all(torch.equal(other.tensors[name], first.tensors[name]) for name in first.tensors)


def test_an_eagle1_head_reads_the_last_feature_and_borrows_the_output_head(tmp_path: Path) -> None:
    target = samples.target(tmp_path / "target", is_tied=False)
    head = _load(tmp_path, *samples.eagle1(), target)
    assert head.config.kind is HeadKind.EAGLE1
    assert head.config.feature_layers == (FINAL_NORM,)
    assert head.config.fc_bias
    assert head.borrowed == (OUTPUT_HEAD,)
    assert torch.equal(head.tensors[OUTPUT_HEAD], target.lm_head())


def test_a_qwen2_eagle1_head_has_biases(tmp_path: Path) -> None:
    config, tensors = samples.eagle1()
    config |= {"qkv_bias": True, "bias": False}
    del tensors["fc.bias"]
    tensors |= {f"layers.0.self_attn.{name}_proj.bias": torch.ones(4) for name in "kv"}
    tensors["layers.0.self_attn.q_proj.bias"] = torch.ones(8)
    head = _load(tmp_path, config, tensors)
    assert head.config.attention_bias
    assert not head.config.fc_bias


class TestBorrowing:
    def test_missing_embeddings_are_the_targets(self, tmp_path: Path) -> None:
        target = samples.target(tmp_path / "target")
        head = _load(tmp_path, *samples.safeailab(), target)
        assert head.borrowed == (EMBEDDING,)
        assert torch.equal(head.tensors[EMBEDDING], target.embed_tokens())

    def test_own_ones_are_kept(self, tmp_path: Path) -> None:  # B51
        config, tensors = samples.speculators()
        own = samples.weights(9, embed_tokens__weight=(VOCAB, SIZE))
        head = _load(tmp_path, config, tensors | own)
        assert head.borrowed == ()
        assert torch.equal(head.tensors[EMBEDDING], own[EMBEDDING])
        assert torch.equal(head.tensors[OUTPUT_HEAD], tensors[OUTPUT_HEAD])

    def test_the_targets_output_head_stands_in_for_one_vocabulary(  # B48
        self, tmp_path: Path
    ) -> None:
        config, tensors = samples.safeailab()
        config["draft_vocab_size"] = VOCAB
        for name in (OUTPUT_HEAD, "d2t", "t2d"):
            del tensors[name]
        target = samples.target(tmp_path / "target", is_tied=False)
        head = _load(tmp_path, config, tensors, target)
        assert torch.equal(head.tensors[OUTPUT_HEAD], target.lm_head())
        assert "target_ids" not in head.tensors

    def test_it_does_not_for_a_reduced_one(self, tmp_path: Path) -> None:  # B48
        config, tensors = samples.specforge()
        del tensors[OUTPUT_HEAD]
        with pytest.raises(BadCheckpoint, match=r"lm_head\.weight is missing.*vocabulary of 6"):
            _load(tmp_path, config, tensors)

    def test_nor_for_an_order_of_its_own(self, tmp_path: Path) -> None:
        config, tensors = samples.safeailab()
        config["draft_vocab_size"] = VOCAB
        tensors["d2t"] = torch.zeros(VOCAB, dtype=torch.int64)
        tensors["d2t"][:2] = torch.tensor([1, -1])
        del tensors["t2d"], tensors[OUTPUT_HEAD]
        with pytest.raises(BadCheckpoint, match=r"lm_head\.weight is missing"):
            _load(tmp_path, config, tensors)

    def test_embeddings_of_another_width_are_not_borrowed(self, tmp_path: Path) -> None:
        config, tensors = samples.safeailab()
        config["target_hidden_size"] = 6
        tensors["fc.weight"] = tensors["fc.weight"][:, :18].contiguous()
        target = samples.target(tmp_path / "target", hidden_size=6)
        with pytest.raises(BadCheckpoint, match=r"embed_tokens\.weight is missing.*6 wide"):
            _load(tmp_path, config, tensors, target)


def test_a_head_may_be_of_another_width_than_its_target(tmp_path: Path) -> None:  # B50
    config, tensors = samples.safeailab()
    config["target_hidden_size"] = 6
    tensors["fc.weight"] = tensors["fc.weight"][:, :18].contiguous()
    tensors |= samples.weights(9, embed_tokens__weight=(VOCAB, SIZE))
    target = samples.target(tmp_path / "target", hidden_size=6)
    head = _load(tmp_path, config, tensors, target)
    assert (head.config.hidden_size, head.config.target_hidden_size) == (8, 6)
    assert head.config.feature_size == 18


def test_the_number_of_layers_that_some_published_heads_repeat_is_read_past(tmp_path: Path) -> None:
    config, tensors = samples.safeailab()
    config["num_hidden_layers"] = 40
    assert _load(tmp_path, config, tensors).config.num_layers == 1


def test_a_speculators_head_may_have_more_layers_and_every_option(tmp_path: Path) -> None:
    config, tensors = samples.speculators()
    config["transformer_layer_config"] |= {"num_hidden_layers": 2, "model_type": "qwen3"}
    config |= {"norm_before_fc": True, "norm_before_residual": True, "norm_output": True}
    second = samples.layer(SIZE, input_layernorm__weight=(SIZE,))
    tensors |= {"layers.1." + name: tensor for name, tensor in second.items()}
    tensors["input_norm.weight"] = torch.ones(3 * SIZE)
    for index in range(2):
        for name in ("q_norm", "k_norm"):
            tensors[f"layers.{index}.self_attn.{name}.weight"] = torch.ones(4)
    head = _load(tmp_path, config, tensors)
    found = head.config
    assert (found.num_layers, found.qk_norm, found.fc_norm) == (2, True, False)
    assert found.norm_before_fc
    assert found.norm_before_residual
    assert found.norm_output
    assert head.notes.verifier == "org/tiny"


class TestSpecForge:
    def test_its_norm_output_does_not_change_the_feedback(self, tmp_path: Path) -> None:  # trap 2
        config, tensors = samples.specforge()
        config["norm_output"] = True
        assert not _load(tmp_path, config, tensors).config.norm_output

    def test_fc_norm_is_on_where_its_tensors_are(self, tmp_path: Path) -> None:
        config, tensors = samples.specforge()
        tensors |= {f"fc_norm.{index}.weight": torch.ones(SIZE) for index in range(3)}
        assert _load(tmp_path, config, tensors).config.fc_norm

    def test_nvidia_says_norm_before_fc_within(self, tmp_path: Path) -> None:  # B56
        config, tensors = samples.specforge()
        config["eagle_config"] |= {
            "norm_before_fc": True,
            "eagle_aux_hidden_state_layer_ids": [6, 8, 10],
        }
        tensors["input_norm.weight"] = torch.ones(3 * SIZE)
        found = _load(tmp_path, config, tensors).config
        assert found.norm_before_fc
        assert found.feature_layers == (6, 8, 10)  # B55: boundaries, up to the last


REFUSALS = [
    ("safeailab", "missing", "midlayer.mlp.up_proj.weight", r"midlayer\.mlp\.up_proj.* is missing"),
    ("speculators", "missing", "layers.0.hidden_norm.weight", r"layers\.0\.hidden_norm.* missing"),
    ("eagle1", "missing", "fc.bias", r"fc\.bias is missing"),
    ("specforge", "missing", "d2t", "d2t is missing"),
    ("safeailab", "added", "midlayer.extra.weight", r"unknown tensor midlayer\.extra\.weight"),
    ("speculators", "added", "input_norm.weight", r"unknown tensor input_norm.*norm_before_fc"),
    ("speculators", "added", "fc_norm.0.weight", r"unknown tensor fc_norm\.0.*fc_norm is off"),
    ("specforge", "added", "input_norm.weight", r"unknown tensor input_norm.*norm_before_fc"),
    ("safeailab", "added", "fc.bias", r"unknown tensor fc\.bias; bias is off"),
    ("eagle1", "added", "layers.0.input_layernorm.weight", r"unknown tensor layers\.0\.input_lay"),
    (
        "eagle1",
        "added",
        "layers.0.self_attn.q_proj.bias",
        r"unknown tensor layers\.0.*q_proj\.bias",
    ),
    ("safeailab", "cut", "lm_head.weight", r"lm_head\.weight is \[5, 8\], expected \[6, 8\]"),
    ("specforge", "cut", "norm.weight", r"norm\.weight is \[7\], expected \[8\]"),
    ("speculators", "cut", "d2t", r"d2t is \[5\], expected \[6\]"),
    ("specforge", "cut", "t2d", r"t2d is \[15\], expected \[16\]"),
]


@pytest.mark.parametrize(("name", "change", "tensor", "message"), REFUSALS)
def test_a_tensor_that_does_not_belong_is_named(
    name: str, change: str, tensor: str, message: str, tmp_path: Path
) -> None:
    config, tensors = samples.SAMPLES[name]()
    if change == "missing":
        del tensors[tensor]
    elif change == "added":
        tensors[tensor] = torch.ones(SIZE)
    else:
        tensors[tensor] = tensors[tensor][:-1].clone()
    with pytest.raises(BadCheckpoint, match=message):
        _load(tmp_path, config, tensors)


def test_two_norms_before_fc_exclude_one_another(tmp_path: Path) -> None:
    config, tensors = samples.speculators()
    config |= {"norm_before_fc": True, "fc_norm": True}
    with pytest.raises(BadCheckpoint, match="fc_norm and norm_before_fc"):
        _load(tmp_path, config, tensors)


def test_features_and_layers_must_be_as_many(tmp_path: Path) -> None:
    config, tensors = samples.speculators()
    config["eagle_aux_hidden_state_layer_ids"] = [2, 5]
    with pytest.raises(BadCheckpoint, match=r"fc\.weight fuses 3 features of 8.* 2 layers"):
        _load(tmp_path, config, tensors)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden_size": 16}, "target_hidden_size 8; this one has 16"),
        ({"vocab_size": 20}, "vocab_size 16; this one has 20"),
    ],
)
def test_another_target_is_refused_by_its_sizes(
    setting: dict[str, Any], message: str, tmp_path: Path
) -> None:
    target = samples.target(tmp_path / "target", **setting)
    with pytest.raises(BadCheckpoint, match=message):
        _load(tmp_path, *samples.safeailab(), target)


@pytest.mark.parametrize("option", ["norm_output", "fc_norm", "norm_before_residual"])
def test_options_that_a_format_does_not_know_are_not_read_past(option: str, tmp_path: Path) -> None:
    config, tensors = samples.safeailab()
    config[option] = True
    with pytest.raises(BadCheckpoint, match=f"{option} is on, which the safeailab format"):
        _load(tmp_path, config, tensors)


def test_sliding_windows_are_refused(tmp_path: Path) -> None:
    config, tensors = samples.speculators()
    config["transformer_layer_config"]["layer_types"] = ["sliding_attention"]
    with pytest.raises(BadCheckpoint, match="sliding-window"):
        _load(tmp_path, config, tensors)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hidden_size", "8", "hidden_size must be a whole number above 0, not '8'"),
        ("rms_norm_eps", -1, "rms_norm_eps must be a number above 0"),
        ("bias", 1, "bias must be true or false, not 1"),
        ("hidden_act", "sillu", "sillu"),
        ("eagle_aux_hidden_state_layer_ids", [2, -1, 7], "must be a list of layer numbers"),
        ("num_attention_heads", None, "num_attention_heads is missing"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: object, message: str, tmp_path: Path) -> None:
    config, tensors = samples.safeailab()
    config[name] = value
    with pytest.raises(BadCheckpoint, match=message):
        _load(tmp_path, config, tensors)
