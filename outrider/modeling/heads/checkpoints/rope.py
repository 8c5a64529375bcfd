"""One reading of rotary embeddings, however a `config.json` spells them.

transformers 4 writes `rope_theta` and `rope_scaling`, transformers 5 `rope_parameters`; some files
hold both. Knows nothing of tables: how long those are is the target's affair.
"""

from collections.abc import Mapping
from typing import Any, Final

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint

DEFAULT_THETA: Final = 10000.0  # what all four formats' own code takes where the file says nothing

_TYPES: Final = ("default", "linear", "dynamic", "yarn", "longrope", "llama3")
# Text has the same position in all three sections of a multimodal table: one plain table.
_SECTIONS: Final = ("mrope_section", "mrope_interleaved")
# These stretch from a length that older files leave to `max_position_embeddings`.
_STRETCHED: Final = ("dynamic", "yarn", "longrope")


def resolve_rope(config: ConfigFile) -> dict[str, Any]:
    """Rotary embedding in the words of transformers 5.

    Args:
        config: Of a head or a target.

    Returns:
        `rope_type`, `rope_theta` and what the type needs.

    Raises:
        BadCheckpoint: The two spellings contradict each other, layers differ, or the type is
            unknown.
    """
    rope = {**_version_4(config)}
    for name, value in _version_5(config).items():
        if name in rope and rope[name] != value:
            raise BadCheckpoint(
                f"config.json says {name} twice: {rope[name]!r} as transformers 4 does, and "
                f"{value!r} in rope_parameters"
            )
        rope[name] = value
    rope = {name: value for name, value in rope.items() if name not in _SECTIONS}
    if rope.setdefault("rope_type", "default") == "mrope":
        rope["rope_type"] = "default"
    rope_type = rope["rope_type"]
    if rope_type not in _TYPES:
        raise BadCheckpoint(f"rope type {rope_type!r} is not one of {', '.join(_TYPES)}")
    rope["rope_theta"] = float(rope.get("rope_theta", DEFAULT_THETA))
    if rope_type in _STRETCHED and "max_position_embeddings" in config:
        rope.setdefault("original_max_position_embeddings", config["max_position_embeddings"])
    return rope


def rope_version_4(rope: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the words of transformers 4, to be put into a `config.json`."""
    top = {name: rope[name] for name in ("rope_theta", "partial_rotary_factor") if name in rope}
    scaling = {name: value for name, value in rope.items() if name not in top}
    return {**top, "rope_scaling": None if rope["rope_type"] == "default" else scaling}


def _version_4(config: ConfigFile) -> dict[str, Any]:
    rope = dict(config.section("rope_scaling"))
    # "type" is the older spelling; files that carry both mean the same.
    older = rope.pop("type", None)
    if older is not None:
        rope.setdefault("rope_type", older)
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in config:
            rope[name] = config.number(name)
    return rope


def _version_5(config: ConfigFile) -> dict[str, Any]:
    rope = dict(config.section("rope_parameters"))
    by_layer_type = [value for value in rope.values() if isinstance(value, Mapping)]
    if not by_layer_type:
        return rope
    if any(value != by_layer_type[0] for value in by_layer_type):
        raise BadCheckpoint("rope_parameters differ by layer type, which no head here does")
    return dict(by_layer_type[0])
