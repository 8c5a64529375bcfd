"""Loads a causal language model as a target needs it: on one device, over several, or in parts.

Over several devices, each has some layers and a pass goes from one to the next. In parts (tensor
parallel), each rank has some heads of every layer, and all ranks run each pass together.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.distributed.configuration_utils import DistributedConfig

from outrider.modeling.quantization import (
    Quantization,
    check_own_quantization,
    quantization_config,
)
from outrider.modeling.ragged_attention import ATTENTION_NAME

CPU = "cpu"
SLOW_PLACES = frozenset({CPU, "disk"})  # where `accelerate` puts what fits no GPU


def load_network(
    source: str | Path,
    dtype: torch.dtype | str,
    device_map: str,
    quantization: Quantization = Quantization.NONE,
    rank_count: int = 1,
) -> PreTrainedModel:
    """Loads safetensors from a folder or a hub name.

    Args:
        source: Folder or hub name.
        dtype: Of the weights and the cache; "auto" is the checkpoint's.
        device_map: "cpu", "cuda", "cuda:1", "auto" (over what is there), ...; not looked at where
            there are several ranks.
        quantization: What is done to the weights on the way.
        rank_count: Ranks that load their part each, all at once, in one process group; 1: the whole
            model is loaded here.

    Returns:
        In evaluation mode, with the ragged attention function set.

    Raises:
        OSError: The files are not there, or are pickles only.
        ImportError: A package is missing that the checkpoint needs.
        ValueError: What is asked for does not go with this model, or with one another.
    """
    config = AutoConfig.from_pretrained(source)
    options: dict[str, Any] = {}
    if rank_count > 1:
        _check_parts(config, quantization, rank_count)
        options["distributed_config"] = DistributedConfig(tp_size=rank_count)
    else:
        # Without a map the weights are on the CPU; `bitsandbytes` would take a GPU then.
        is_plain = device_map == CPU and quantization is Quantization.NONE
        options["device_map"] = None if is_plain else device_map
        _check_map(device_map)
    _check_own(config, quantization)
    if quantization is not Quantization.NONE:
        compute_dtype = dtype if isinstance(dtype, torch.dtype) else config.dtype or torch.bfloat16
        options["quantization_config"] = quantization_config(quantization, compute_dtype)
    model = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=dtype,
        attn_implementation=ATTENTION_NAME,
        use_safetensors=True,
        **options,
    )
    _check_places(model)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _check_map(device_map: str) -> None:
    kind, _, index = device_map.partition(":")
    if kind == "cuda":
        count = torch.cuda.device_count()
        if int(index or 0) >= count:
            raise ValueError(f"there is no device {device_map}: torch sees {count} CUDA devices")
    if device_map != CPU and find_spec("accelerate") is None:
        raise ValueError(
            f"device map {device_map} needs the package accelerate: pip install 'outrider[spread]'"
        )


def _check_parts(config: PreTrainedConfig, quantization: Quantization, rank_count: int) -> None:
    if quantization is not Quantization.NONE:
        raise ValueError(f"{quantization} is for whole layers; it does not go with several ranks")
    text = config.get_text_config()
    plan: dict[str, str] = text.base_model_tp_plan or {}
    if not any(name.endswith(".k_proj") and plan[name] == "colwise" for name in plan):
        return  # attention stays whole on every rank
    heads = int(text.num_attention_heads)
    for count, name in (
        (heads, "attention heads"),
        (int(getattr(text, "num_key_value_heads", None) or heads), "key-value heads"),
    ):
        if count % rank_count:
            raise ValueError(f"{count} {name} cannot be shared out evenly among {rank_count} ranks")


def _check_own(config: PreTrainedConfig, quantization: Quantization) -> None:
    own = getattr(config, "quantization_config", None)
    if not own:
        return
    if quantization is not Quantization.NONE:
        raise ValueError(
            f"the checkpoint is quantised already ({own.get('quant_method', 'no method named')}) "
            f"and is loaded as it is; {quantization} cannot be done on top"
        )
    check_own_quantization(own)


def _check_places(model: PreTrainedModel) -> None:
    """Refuses a model of which a part would be fetched from slow memory in every pass."""
    placed: dict[str, Any] = getattr(model, "hf_device_map", {})
    slow = [name for name, place in placed.items() if str(place) in SLOW_PLACES]
    if slow and len(slow) < len(placed):
        raise ValueError(
            f"it does not fit the GPUs: {len(slow)} of {len(placed)} modules ({slow[0]}, ...) "
            "would be copied from main memory or disk in each pass; take more GPUs, "
            "--quantization, or the CPU"
        )
