"""EAGLE-3 heads as SafeAILab publishes them: one layer, `midlayer`, and no later options.

Layer ids are boundaries; the authors' code fixes them and vLLM reads them from the file.
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

NAME: Final = "safeailab"
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"
_UNKNOWN: Final = (
    "fc_norm",
    "norm_before_fc",
    "norm_before_residual",
    "norm_output",
    "qk_norm",
)


def _head_config(config: ConfigFile, shapes: Shapes, layer_count: int | None) -> HeadConfig:
    refuse_options(config, _UNKNOWN, NAME)
    settings = decoder_settings(config)
    layers = config.layer_ids(_LAYER_IDS)
    return HeadConfig(
        kind=HeadKind.EAGLE3,
        target_hidden_size=config.integer("target_hidden_size", settings["hidden_size"]),
        num_layers=1,  # some published files repeat the target's number here
        draft_vocab_size=draft_vocab_size(config, shapes),
        feature_layers=boundaries(layers, LayerNumbering.BOUNDARIES, layer_count),
        fc_bias=config.flag("bias"),
        **settings,
    )


def _document(config: HeadConfig, notes: HeadNotes) -> dict[str, Any]:
    refuse_options(asdict(config), _UNKNOWN, NAME)
    if config.num_layers > 1:
        raise BadCheckpoint(f"the {NAME} format has one layer, this head {config.num_layers}")
    return {
        "architectures": ["LlamaForCausalLM"],
        **decoder_document(config, notes),
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        "bias": config.fc_bias,
        _LAYER_IDS: layer_ids(config.feature_layers, LayerNumbering.BOUNDARIES),
    }


FORMAT: Final = HeadFormat(NAME, "midlayer.", _head_config, _document)
