"""What goes together when a target is loaded, and in which words the rest is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from outrider.modeling import quantization as quantization_module
from outrider.modeling import target_loading
from outrider.modeling.quantization import (
    Quantization,
    check_own_quantization,
    quantization_config,
)
from outrider.modeling.ragged_batch import SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from outrider.modeling.target_loading import load_network
from tests.unit.modeling.tiny_models import plain_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with two key-value heads."""
    folder = tmp_path_factory.mktemp("llama")
    plain_model("llama").save_pretrained(folder)
    return folder


def load(folder: Path, device_map: str = "cpu", **options: Any) -> None:
    load_network(folder, torch.float32, device_map, **options)


def with_config(folder: Path, to: Path, **fields: Any) -> Path:
    """A folder with the same config.json but for some fields."""
    config = json.loads((folder / "config.json").read_text()) | fields
    (to / "config.json").write_text(json.dumps(config))
    return to


def test_heads_must_be_shared_out_evenly(folder: Path) -> None:
    words = "2 key-value heads cannot be shared out evenly among 4 ranks"
    with pytest.raises(ValueError, match=words):
        load(folder, rank_count=4)
    with pytest.raises(ValueError, match="4 attention heads cannot be shared out evenly among 3"):
        load(folder, rank_count=3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are CUDA devices")
@pytest.mark.parametrize("device_map", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_named(folder: Path, device_map: str) -> None:
    with pytest.raises(ValueError, match=f"no device {device_map}: torch sees 0 CUDA devices"):
        load(folder, device_map)


def test_without_accelerate_the_extra_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_loading, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs the package accelerate: .*'outrider\[spread\]'"):
        load(folder, "auto")
    load(folder, "cpu")


@pytest.mark.parametrize("slow", ["cpu", "disk"])
def test_a_model_that_spills_from_its_gpus_is_refused(slow: str) -> None:
    places = {"model.layers.0": 0, "model.layers.1": 0, "lm_head": slow}
    model: Any = SimpleNamespace(hf_device_map=places)
    with pytest.raises(ValueError, match=r"does not fit the GPUs: 1 of 3 modules \(lm_head"):
        target_loading._check_places(model)
    for fine in ({"": "cpu"}, {"model": 0, "lm_head": 1}):
        target_loading._check_places(SimpleNamespace(hf_device_map=fine))  # type: ignore[arg-type]


def test_quantised_weights_are_not_quantised_again(folder: Path, tmp_path: Path) -> None:
    quantised = with_config(folder, tmp_path, quantization_config={"quant_method": "gptq"})
    with pytest.raises(ValueError, match=r"quantised already \(gptq\).*torchao-int8 cannot be"):
        load(quantised, quantization=Quantization.TORCHAO_INT8)


def test_weights_of_several_ranks_are_not_quantised(folder: Path) -> None:
    with pytest.raises(ValueError, match="bitsandbytes-4bit is for whole layers"):
        load(folder, quantization=Quantization.BITSANDBYTES_4BIT, rank_count=2)


@pytest.mark.parametrize("quantization", [one for one in Quantization if one.value != "none"])
def test_a_missing_package_is_named_with_its_extra(
    quantization: Quantization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantization_module, "find_spec", lambda name: None)
    package = quantization.partition("-")[0]
    words = rf"{quantization} needs the package {package}: .*'outrider\[{package}\]'"
    with pytest.raises(ValueError, match=words):
        quantization_config(quantization, torch.bfloat16)


BATCH_SCALE = {"input_activations": {"dynamic": True, "strategy": "tensor"}}
TOKEN_SCALE = {"input_activations": {"dynamic": True, "strategy": "token"}}
FIXED_SCALE = {"input_activations": {"dynamic": False, "strategy": "tensor"}}


@pytest.mark.parametrize(
    "config",
    [
        {"load_in_8bit": True},
        {"load_in_8bit": True, "llm_int8_threshold": 6.0},
        {"config_groups": {"group_0": {"input_activations": None}, "group_1": BATCH_SCALE}},
    ],
)
def test_a_checkpoint_whose_rows_depend_on_each_other_is_refused(config: Any) -> None:
    with pytest.raises(ValueError, match=r"rows of a batch"):
        check_own_quantization(config)


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "awq", "bits": 4},
        {"load_in_4bit": True, "llm_int8_threshold": 6.0},
        {"load_in_8bit": True, "llm_int8_threshold": 0.0},
        {"config_groups": {"group_0": TOKEN_SCALE, "group_1": FIXED_SCALE}},
        {"quant_method": "fp8", "config_groups": None},
    ],
)
def test_a_checkpoint_whose_rows_are_apart_is_taken(config: Any) -> None:
    check_own_quantization(config)


@pytest.mark.filterwarnings("default")  # of packages that are not ours
@pytest.mark.parametrize("quantization", [one for one in Quantization if one.value != "none"])
def test_a_quantised_target_is_smaller_and_its_rows_do_not_depend_on_one_another(
    quantization: Quantization, folder: Path
) -> None:
    """Where the package is installed."""
    for package in quantization.packages:
        pytest.importorskip(package)
    plain = TargetModel.load(folder, torch.bfloat16, "cpu")
    target = TargetModel.load(folder, torch.bfloat16, "cpu", quantization)
    assert target.weight_bytes < 0.7 * plain.weight_bytes
    assert target.facts == plain.facts
    assert target.fingerprint != plain.fingerprint
    target.allocate(64)
    alone = target.forward(build_ragged_batch([SegmentRows([5], [-1], 0, range(1), 0)]))
    tree = SegmentRows([5, 6, 7, 8], [-1, 0, 0, 0], 0, range(4), 0)
    among = target.forward(build_ragged_batch([tree]))
    torch.testing.assert_close(alone[0], among[0], atol=2e-2, rtol=2e-2)


@pytest.mark.filterwarnings("default")
def test_a_quantised_checkpoint_loads_as_it_says(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torchao")
    quantised = load_network(folder, torch.bfloat16, "cpu", Quantization.TORCHAO_INT8)
    quantised.save_pretrained(tmp_path)
    loaded = TargetModel.load(tmp_path, torch.bfloat16, "cpu")
    assert loaded.fingerprint == TargetModel(quantised).fingerprint
