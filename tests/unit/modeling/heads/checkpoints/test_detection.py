from typing import Any

import pytest
import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.detection import detect_format
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from tests.unit.modeling.heads.checkpoints import sample_heads as samples


def _detect(config: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return detect_format(ConfigFile(config), shapes).name


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_the_four_formats_are_told_apart(name: str) -> None:
    assert _detect(*samples.SAMPLES[name]()) == name


def test_an_eagle1_head_is_one_whatever_its_config_calls_it() -> None:  # B49
    config, tensors = samples.eagle1()
    config["architectures"] = ["LlamaForCausalLMEagle3"]
    assert _detect(config, tensors) == "eagle1"


def test_an_eagle3_head_in_eagle1_names_is_refused() -> None:  # B49
    _, tensors = samples.speculators()
    config, _ = samples.eagle1()
    with pytest.raises(BadCheckpoint, match=r"fc\.weight is \[8, 24\], which is no EAGLE-1"):
        _detect(config, tensors)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speculators_model_type": "peagle"}, "P-EAGLE"),
        ({"speculators_model_type": "dflash"}, "DFlash"),
        ({"speculators_model_type": "mtp"}, "multi-token prediction"),
        ({"speculators_model_type": "eagle"}, "speculators_model_type is 'eagle'"),
        ({"architectures": ["PEagleDraftModel"]}, "P-EAGLE"),
        ({"architectures": ["DFlashDraftModel"]}, "DFlash"),
        ({"architectures": ["Eagle3DeepseekV2ForCausalLM"]}, "DeepSeek"),
        ({"dflash_config": {"mask_token_id": 3}}, "DFlash"),
    ],
)
def test_other_methods_are_refused_by_their_name(settings: dict[str, Any], message: str) -> None:
    config, tensors = samples.safeailab()
    with pytest.raises(BadCheckpoint, match=f"{message}.*EAGLE-1, EAGLE-2 and EAGLE-3"):
        _detect(config | settings, tensors)


def test_the_mask_of_parallel_drafting_is_refused() -> None:
    config, tensors = samples.speculators()
    with pytest.raises(BadCheckpoint, match="mask_hidden belongs to P-EAGLE"):
        _detect(config, tensors | {"mask_hidden": torch.ones(1, 1, 24)})


def test_a_language_model_is_no_head() -> None:
    config, _ = samples.safeailab()
    with pytest.raises(BadCheckpoint, match="no draft head"):
        _detect(config, {"model.layers.0.mlp.up_proj.weight": torch.ones(1)})


def test_a_layer_without_fc_is_no_head() -> None:
    config, tensors = samples.eagle1()
    del tensors["fc.weight"]
    with pytest.raises(BadCheckpoint, match=r"fc\.weight is missing"):
        _detect(config, tensors)
