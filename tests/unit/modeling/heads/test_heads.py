"""`build_head` takes what fits and names what does not."""

import pytest
import torch

from outrider.modeling.heads.heads import build_head, expected_shapes
from tests.unit.modeling.heads.tiny_heads import (
    VOCAB,
    eagle1_config,
    eagle3_config,
    random_tensors,
    tiny_head,
)

FULL = {"fc_norm": True, "fc_bias": True, "attention_bias": True, "qk_norm": True, "num_layers": 2}


def refusal(config, tensors) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # callers look at the text
        build_head(config, tensors, torch.float32, "cpu")
    return str(caught.value)


@pytest.mark.parametrize("config", [eagle3_config(**FULL), eagle1_config(num_layers=2)])
def test_expected_shapes_are_those_of_the_formats(config):
    tensors = random_tensors(config)
    tensors.pop("target_ids", None)
    assert expected_shapes(config) == {name: tuple(t.shape) for name, t in tensors.items()}


@pytest.mark.parametrize("config", [eagle3_config(**FULL), eagle1_config(num_layers=2)])
def test_every_missing_tensor_is_named(config):
    tensors = random_tensors(config)
    for name in tensors:
        others = {other: tensor for other, tensor in tensors.items() if other != name}
        message = refusal(config, others)
        assert f"tensor {name} " in message
        assert "is missing" in message


def test_unknown_tensors_are_named():
    config = eagle3_config()
    tensors = random_tensors(config) | {"midlayer.hidden_norm.weight": torch.ones(3)}
    assert "tensor midlayer.hidden_norm.weight [3] is unknown" in refusal(config, tensors)


def test_an_option_that_the_configuration_forgot_is_an_unknown_tensor():
    config = eagle3_config()
    tensors = random_tensors(eagle3_config(fc_norm=True))
    assert "tensor fc_norm.0.weight [12] is unknown" in refusal(config, tensors)


def test_misshaped_tensors_are_named_with_what_was_expected():
    """B42: features of another width than the head was made for."""
    config = eagle3_config()
    tensors = random_tensors(config) | {"fc.weight": torch.ones(20, 12)}
    assert "tensor fc.weight is [20, 12], expected [20, 36]" in refusal(config, tensors)


def test_quantised_weights_are_refused():
    config = eagle3_config()
    tensors = random_tensors(config)
    tensors["lm_head.weight"] = tensors["lm_head.weight"].to(torch.int8)
    assert "tensor lm_head.weight is torch.int8" in refusal(config, tensors)


@pytest.mark.parametrize(
    ("target_ids", "named"),
    [
        (torch.arange(23, dtype=torch.int32), "torch.int32"),
        (torch.arange(22), r"[22], expected int64 [23]"),
        (torch.arange(23) + VOCAB - 22, "ids from 19 to 41, expected 0 to 40"),
        (torch.arange(23) - 1, "ids from -1 to 21"),
        (torch.zeros(23, dtype=torch.int64), "names a target token twice"),
    ],
)
def test_bad_target_ids_are_refused(target_ids, named):
    config = eagle3_config()
    message = refusal(config, random_tensors(config) | {"target_ids": target_ids})
    assert "tensor target_ids" in message
    assert named in message


def test_a_long_list_of_problems_is_cut():
    message = refusal(eagle3_config(), {})
    assert message.count("is missing") == 5
    assert "and 10 more" in message


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (eagle3_config(fc_norm=True, norm_before_fc=True), "fc_norm and norm_before_fc"),
        (eagle3_config(num_kv_heads=3), "4 heads do not share 3"),
        (eagle3_config(hidden_act="swash"), "'swash'"),
        (eagle1_config(norm_output=True), "norm_output is not for eagle1"),
        (eagle1_config(feature_layers=(1, 2, 3)), "one feature of that width, not 3 of 20"),
        (eagle1_config(target_hidden_size=24), "one feature of that width, not 1 of 24"),
    ],
)
def test_contradictions_are_refused_in_words(config, named):
    assert named in refusal(config, random_tensors(eagle3_config()))


def test_target_ids_are_kept_whatever_the_dtype():
    config = eagle3_config()
    tensors = random_tensors(config)
    head = build_head(config, tensors, torch.bfloat16, "cpu")
    assert head.target_ids is not None
    assert torch.equal(head.target_ids, tensors["target_ids"])
    assert isinstance(head, torch.nn.Module)
    assert {p.dtype for p in head.parameters()} == {torch.bfloat16}


def test_one_vocabulary_needs_no_map():
    assert tiny_head(eagle1_config()).target_ids is None
    assert tiny_head(eagle3_config(draft_vocab_size=VOCAB)).target_ids is None


def test_tensors_that_fit_are_shared():
    config = eagle3_config()
    tensors = random_tensors(config)
    head = build_head(config, tensors, torch.float32, "cpu")
    assert isinstance(head, torch.nn.Module)
    weight = head.get_parameter("embed_tokens.weight")
    assert weight.data_ptr() == tensors["embed_tokens.weight"].data_ptr()
    assert weight.requires_grad
