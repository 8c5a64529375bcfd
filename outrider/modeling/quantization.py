"""What `transformers` can do to a target's weights while it loads them, and what may not be done.

All forms offered here treat each row of a batch by itself: what one row gives must not depend on
the rows beside it, or a draft could change a token. Checkpoints that are quantised already say so
themselves, and are loaded as they say.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from transformers import BitsAndBytesConfig, TorchAoConfig
from transformers.utils.quantization_config import QuantizationConfigMixin


class Quantization(StrEnum):
    """How weights are kept; the part before the dash is the package that does it."""

    NONE = "none"
    BITSANDBYTES_8BIT = "bitsandbytes-8bit"
    BITSANDBYTES_4BIT = "bitsandbytes-4bit"
    TORCHAO_INT8 = "torchao-int8"
    TORCHAO_FLOAT8 = "torchao-float8"

    @property
    def packages(self) -> tuple[str, ...]:
        """What must be installed."""
        package = self.partition("-")[0]
        return (package, "accelerate") if package == "bitsandbytes" else (package,)


def quantization_config(
    quantization: Quantization, compute_dtype: torch.dtype
) -> QuantizationConfigMixin:
    """What `from_pretrained` is told.

    Args:
        quantization: Not NONE.
        compute_dtype: Of the arithmetic.

    Raises:
        ValueError: A package is missing; the message says how to get it.
    """
    for package in quantization.packages:
        if find_spec(package) is None:
            extra = quantization.partition("-")[0]
            raise ValueError(
                f"{quantization} needs the package {package}: pip install 'outrider[{extra}]'"
            )
    match quantization:
        case Quantization.BITSANDBYTES_8BIT:
            # One warning for each product of each layer that activations are rounded to float16.
            logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
            # Above 0, columns are kept in float16 for the whole batch where one row has an outlier.
            return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
                load_in_8bit=True, llm_int8_threshold=0.0
            )
        case Quantization.BITSANDBYTES_4BIT:
            return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute_dtype
            )
        case Quantization.TORCHAO_INT8:
            return TorchAoConfig(import_module("torchao.quantization").Int8WeightOnlyConfig())
        case Quantization.TORCHAO_FLOAT8:
            return TorchAoConfig(import_module("torchao.quantization").Float8WeightOnlyConfig())
    raise AssertionError("nothing is done to the weights")


def check_own_quantization(config: Mapping[str, Any]) -> None:
    """Refuses a quantised checkpoint whose rows depend on one another.

    Args:
        config: `quantization_config` of its config.json.

    Raises:
        ValueError: It is one.
    """
    if config.get("load_in_8bit") and config.get("llm_int8_threshold", 6.0) > 0:
        raise ValueError(
            "its 8-bit weights come with llm_int8_threshold above 0: which columns stay float16 "
            "would depend on the other rows of a batch, and so would the text; set it to 0 in "
            "config.json, or take another form"
        )
    groups = config.get("config_groups") or {}
    for group in groups.values():
        activations = group.get("input_activations") or {}
        if activations.get("dynamic") is True and activations.get("strategy") == "tensor":
            raise ValueError(
                "it rounds activations by one scale for a whole batch, so that the text would "
                "depend on the other rows of a batch; take one with a scale for each token"
            )
