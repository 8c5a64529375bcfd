"""Which hidden states of the target a head reads, in one numbering.

Published files count in two ways. SafeAILab, vLLM and speculators name *boundaries*: i is the input
of decoder layer i. SpecForge and SGLang name *outputs*: i is what layer i gives, which is boundary
i + 1; but heads of others carry boundaries in the same place, and SGLang tells them apart by the
first id (sglang#25454): 1 means outputs. Here everything is a boundary, from 0 to the layer count.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import Final

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint, TargetNeeded

_FIRST_OUTPUT: Final = 1  # a first id of 1 marks outputs


class LayerNumbering(Enum):
    """What the layer ids of a format count."""

    BOUNDARIES = "boundaries"
    OUTPUTS = "outputs"


def boundaries(
    layer_ids: Sequence[int] | None, numbering: LayerNumbering, layer_count: int | None
) -> tuple[int, ...]:
    """The boundaries that layer ids mean.

    Args:
        layer_ids: As in the file, or None for the default of all four formats: the inputs of
            layers 2, n // 2 and n - 3.
        numbering: What the format counts.
        layer_count: Decoder layers of the target; None where no target is at hand.

    Returns:
        Low to high; the layer count itself is the last layer's output.

    Raises:
        BadCheckpoint: The ids do not rise or do not fit the target.
        TargetNeeded: The default is asked for without a target.
    """
    if layer_ids is None:
        if layer_count is None:
            raise TargetNeeded(
                "config.json does not say which layers the head reads; that depends on the "
                "target, so name it with --target"
            )
        found: tuple[int, ...] = (2, layer_count // 2, layer_count - 3)
        origin = f"the default for a target of {layer_count} layers"
    else:
        is_shifted = numbering is LayerNumbering.OUTPUTS and layer_ids[0] == _FIRST_OUTPUT
        found = tuple(layer_id + is_shifted for layer_id in layer_ids)
        origin = f"layer ids {list(layer_ids)}"
    if any(below >= above for below, above in pairwise(found)):
        raise BadCheckpoint(f"{origin}: boundaries {list(found)} do not rise")
    if layer_count is not None and found[-1] > layer_count:
        raise BadCheckpoint(
            f"{origin}: boundary {found[-1]} lies behind the last of a target of "
            f"{layer_count} layers; the head was made for another target"
        )
    return found


def layer_ids(feature_layers: Sequence[int], numbering: LayerNumbering) -> list[int]:
    """The inverse of `boundaries`: what to write into a file.

    Raises:
        BadCheckpoint: The numbering has no way to say it.
    """
    if numbering is LayerNumbering.BOUNDARIES:
        return list(feature_layers)
    if feature_layers[0] == _FIRST_OUTPUT:
        raise BadCheckpoint(
            f"boundaries {list(feature_layers)} cannot be written in this format: a first id of "
            "1 is taken for an output"
        )
    if feature_layers[0] == _FIRST_OUTPUT + 1:
        return [boundary - 1 for boundary in feature_layers]
    return list(feature_layers)
