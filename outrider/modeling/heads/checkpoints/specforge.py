"""EAGLE-3 heads that SpecForge trains and SGLang serves: SafeAILab's names, layer ids of outputs.

`norm_output` is read past. In SpecForge it long meant "norm before the logits", which every head
here does, and such heads were trained with un-normed feedback; later versions, and SGLang, mean the
normed feedback of EAGLE-3.1 by it. The file does not tell which; the canary's second step does.
"""

from dataclasses import asdict
from typing import Any, Final

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.feature_layers import (
    LayerNumbering,
    boundaries,
    layer_ids,
)
from outrider.modeling.heads.checkpoints.head_format import (
    HeadFormat,
    HeadNotes,
    decoder_document,
    decoder_settings,
    draft_vocab_size,
    refuse_options,
)
from outrider.modeling.heads.checkpoints.tensor_files import Shapes
from outrider.modeling.heads.head_config import HeadConfig, HeadKind

NAME: Final = "specforge"
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"
_UNKNOWN: Final = ("norm_before_residual", "qk_norm")


def _head_config(config: ConfigFile, shapes: Shapes, layer_count: int | None) -> HeadConfig:
    refuse_options(config, _UNKNOWN, NAME)
    options = config.section("eagle_config")
    if not options.flag("use_aux_hidden_state", default=True):
        raise BadCheckpoint("use_aux_hidden_state is off: heads without fc are not supported")
    settings = decoder_settings(config)
    has_fc_norm = any(name.startswith("fc_norm.") for name in shapes)
    return HeadConfig(
        kind=HeadKind.EAGLE3,
        target_hidden_size=config.integer("target_hidden_size", settings["hidden_size"]),
        num_layers=1,
        draft_vocab_size=draft_vocab_size(config, shapes),
        feature_layers=boundaries(
            options.layer_ids(_LAYER_IDS), LayerNumbering.OUTPUTS, layer_count
        ),
        fc_bias=config.flag("bias"),
        fc_norm=config.flag("fc_norm", has_fc_norm),
        # NVIDIA's heads, which share this form, say it within.
        norm_before_fc=options.flag("norm_before_fc", config.flag("norm_before_fc")),
        **settings,
    )


def _document(config: HeadConfig, notes: HeadNotes) -> dict[str, Any]:
    refuse_options(asdict(config), (*_UNKNOWN, "norm_output"), NAME)
    if config.num_layers > 1:
        raise BadCheckpoint(f"the {NAME} format has one layer, this head {config.num_layers}")
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        **decoder_document(config, notes),
        "rope_parameters": dict(config.rope_parameters),
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        "bias": config.fc_bias,
        "fc_norm": config.fc_norm,
        "norm_before_fc": config.norm_before_fc,
        "eagle_config": {
            _LAYER_IDS: layer_ids(config.feature_layers, LayerNumbering.OUTPUTS),
            "use_aux_hidden_state": True,
            "norm_before_fc": config.norm_before_fc,
        },
    }


FORMAT: Final = HeadFormat(NAME, "midlayer.", _head_config, _document)
