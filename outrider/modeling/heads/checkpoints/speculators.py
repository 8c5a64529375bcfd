"""EAGLE-3 heads of the speculators library: every option has a name, layer ids are boundaries.

`norm_output` means here what it means in `HeadConfig`: the next step is fed the normed output.
"""

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
)
from outrider.modeling.heads.checkpoints.tensor_files import Shapes
from outrider.modeling.heads.head_config import HeadConfig, HeadKind

NAME: Final = "speculators"
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"
_MODEL_TYPES: Final = {"llama": False, "qwen3": True}  # True: queries and keys are normed
_SPECULATIVE_TOKENS: Final = 5  # vLLM wants a number; it bounds its drafts, not ours


def _head_config(config: ConfigFile, shapes: Shapes, layer_count: int | None) -> HeadConfig:
    layer = config.section("transformer_layer_config")
    model_type = layer.word("model_type", "llama")
    if model_type not in _MODEL_TYPES:
        raise BadCheckpoint(
            f"transformer_layer_config is of model type {model_type!r}; heads of "
            f"{' and '.join(_MODEL_TYPES)} layers are read"
        )
    settings = decoder_settings(layer)
    return HeadConfig(
        kind=HeadKind.EAGLE3,
        target_hidden_size=config.integer("target_hidden_size", settings["hidden_size"]),
        num_layers=layer.integer("num_hidden_layers", 1),
        draft_vocab_size=draft_vocab_size(
            ConfigFile({"vocab_size": settings["vocab_size"], **config}), shapes
        ),
        feature_layers=boundaries(
            config.layer_ids(_LAYER_IDS), LayerNumbering.BOUNDARIES, layer_count
        ),
        qk_norm=_MODEL_TYPES[model_type],
        fc_norm=config.flag("fc_norm"),
        norm_before_fc=config.flag("norm_before_fc"),
        norm_before_residual=config.flag("norm_before_residual"),
        norm_output=config.flag("norm_output"),
        **settings,
    )


def _document(config: HeadConfig, notes: HeadNotes) -> dict[str, Any]:
    if config.fc_bias:
        raise BadCheckpoint(f"the {NAME} format has no fc.bias, and this head has one")
    model_type = next(name for name, normed in _MODEL_TYPES.items() if normed is config.qk_norm)
    layer = {
        **decoder_document(config, notes),
        "model_type": model_type,
        "rope_parameters": dict(config.rope_parameters),
    }
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [
                {"proposal_type": "greedy", "speculative_tokens": _SPECULATIVE_TOKENS}
            ],
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": notes.verifier, "architectures": []},
        },
        "transformer_layer_config": layer,
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        _LAYER_IDS: layer_ids(config.feature_layers, LayerNumbering.BOUNDARIES),
        "fc_norm": config.fc_norm,
        "norm_before_fc": config.norm_before_fc,
        "norm_before_residual": config.norm_before_residual,
        "norm_output": config.norm_output,
        "torch_dtype": notes.dtype,
    }


FORMAT: Final = HeadFormat(NAME, "layers.0.", _head_config, _document)
