"""Compares the tensors of a file with those that a head has; nothing is skipped in silence.

What a head has is the networks' own affair (`expected_shapes`); this file finds the words.
"""

from collections.abc import Callable
from typing import Final

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.tensor_files import Shapes
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.modeling.heads.heads import expected_shapes

EMBEDDING: Final = "embed_tokens.weight"
OUTPUT_HEAD: Final = "lm_head.weight"
BORROWED: Final = (EMBEDDING, OUTPUT_HEAD)  # the target's own are taken where a head has none

_HINTS: Final = {
    "input_norm.": "norm_before_fc is off in config.json",
    "fc_norm.": "fc_norm is off in config.json",
    "fc.bias": "bias is off in config.json",
    "mask_hidden": "it belongs to P-EAGLE, which drafts in another way",
}


def check_tensors(
    config: HeadConfig, shapes: Shapes, own_name: Callable[[str], str] = lambda name: name
) -> None:
    """Compares tensors with what a head has.

    Args:
        config: The head.
        shapes: What is there, in normal form, the vocabulary map left out.
        own_name: What a tensor is called in its file, for messages.

    Raises:
        BadCheckpoint: A tensor is missing (unless it can be borrowed), unknown or misshaped, or
            the configuration contradicts itself.
    """
    if config.fc_norm and config.norm_before_fc:
        raise BadCheckpoint("fc_norm and norm_before_fc exclude one another")
    try:
        expected = expected_shapes(config)
    except (KeyError, ValueError) as error:
        raise BadCheckpoint(f"config.json: {error.args[0]}") from None
    _check_fc(config, shapes, own_name)
    for name in sorted(set(shapes) - set(expected)):
        hint = next((f"; {text}" for start, text in _HINTS.items() if name.startswith(start)), "")
        raise BadCheckpoint(f"unknown tensor {own_name(name)}{hint}")
    for name in sorted(set(expected) - set(shapes) - set(BORROWED)):
        raise BadCheckpoint(f"{own_name(name)} is missing")
    for name, shape in sorted(shapes.items()):
        if shape != expected[name]:
            raise BadCheckpoint(
                f"{own_name(name)} is {list(shape)}, expected {list(expected[name])}"
            )


def _check_fc(config: HeadConfig, shapes: Shapes, own_name: Callable[[str], str]) -> None:
    """The shape of `fc` tells the two kinds apart, so a mix-up is named before details are."""
    if config.kind is HeadKind.EAGLE1:
        return
    width = shapes.get("fc.weight", (0, 0))[-1]
    if width == 2 * config.hidden_size != config.feature_size:
        raise BadCheckpoint(
            f"{own_name('fc.weight')} joins an embedding with one feature, as EAGLE-1 heads do, "
            "but the file is laid out as an EAGLE-3 head"
        )
    count, rest = divmod(width, config.target_hidden_size)
    if rest == 0 and 0 < count != len(config.feature_layers):
        raise BadCheckpoint(
            f"{own_name('fc.weight')} fuses {count} features of {config.target_hidden_size}, but "
            f"the head reads {len(config.feature_layers)} layers"
        )
