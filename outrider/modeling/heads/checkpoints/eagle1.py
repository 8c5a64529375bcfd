"""EAGLE-1 and EAGLE-2 heads as SafeAILab publishes them.

They read one feature, what the target's own language-model head reads, and borrow that head.
"""

from dataclasses import asdict
from typing import Any, Final

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.head_format import (
    HeadFormat,
    HeadNotes,
    decoder_document,
    decoder_settings,
    refuse_options,
)
from outrider.modeling.heads.checkpoints.tensor_files import Shapes
from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind

NAME: Final = "eagle1"
_UNKNOWN: Final = ("fc_norm", "norm_before_fc", "norm_before_residual", "norm_output", "qk_norm")


def _head_config(config: ConfigFile, shapes: Shapes, layer_count: int | None) -> HeadConfig:
    refuse_options(config, _UNKNOWN, NAME)
    settings = decoder_settings(config)
    return HeadConfig(
        kind=HeadKind.EAGLE1,
        target_hidden_size=settings["hidden_size"],
        num_layers=config.integer("num_hidden_layers", 1),
        draft_vocab_size=settings["vocab_size"],
        feature_layers=(FINAL_NORM,),
        fc_bias=config.flag("bias", default=True),
        **settings,
    )


def _document(config: HeadConfig, notes: HeadNotes) -> dict[str, Any]:
    refuse_options(asdict(config), _UNKNOWN, NAME)
    return {
        "architectures": ["LlamaForCausalLM"],
        **decoder_document(config, notes),
        "bias": config.fc_bias,
        "qkv_bias": config.attention_bias,
    }


FORMAT: Final = HeadFormat(NAME, "layers.0.", _head_config, _document)
