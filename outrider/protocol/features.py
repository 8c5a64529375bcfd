"""How features lie on the wire: which layers, in which order, how wide a row, how much in a frame.

Features are hidden states of the target that a head reads. Knows numbers and sizes only: no
session, no message, no tensor library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from outrider.protocol.errors import InvalidField
from outrider.v1 import speculation_pb2 as pb

FINAL_NORM = -1  # as a feature layer: what the target's final norm gives
MAX_TENSOR_BYTES = 4 * 2**20  # of one tensor frame


class TensorType(Enum):
    """Element type of a tensor frame; the values are those of the proto enum."""

    FLOAT32 = pb.TENSOR_TYPE_FLOAT32
    FLOAT16 = pb.TENSOR_TYPE_FLOAT16
    BFLOAT16 = pb.TENSOR_TYPE_BFLOAT16

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return 4 if self is TensorType.FLOAT32 else 2


def depth_of(feature_layer: int) -> float:
    """Sorts feature layers low to high: the final norm comes behind every decoder layer."""
    return float("inf") if feature_layer == FINAL_NORM else feature_layer


def check_feature_layers(feature_layers: Sequence[int]) -> None:
    """Checks what can be checked without knowing the target; an empty list means no features.

    Raises:
        InvalidField: A layer is below FINAL_NORM, or they do not rise.
    """
    for place, layer in enumerate(feature_layers):
        if layer < FINAL_NORM:
            raise InvalidField(
                f"feature_layers[{place}]", f"must be at least {FINAL_NORM}, got {layer}"
            )
        if place and depth_of(layer) <= depth_of(feature_layers[place - 1]):
            raise InvalidField(
                f"feature_layers[{place}]",
                f"layers go from low to high, got {layer} behind {feature_layers[place - 1]}",
            )


def misfit(feature_layers: Sequence[int], hidden_size: int, layer_count: int) -> str:
    """Why a target cannot give features of these layers, or "".

    Args:
        feature_layers: At least one.
        hidden_size: Width of the target's hidden states; 0 where it gives none.
        layer_count: Decoder layers of the target.
    """
    deepest, row_size = max(feature_layers), len(feature_layers) * hidden_size
    if not hidden_size:
        return "features are asked for and the target gives none"
    if deepest > layer_count:
        return f"features of layer {deepest}, the target has {layer_count} layers"
    if row_size * TensorType.FLOAT32.size > MAX_TENSOR_BYTES:
        return f"features of {row_size} values a row, more than a frame of {MAX_TENSOR_BYTES} bytes"
    return ""


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """One row of features, as the heads of a draft worker were made for.

    Args:
        feature_layers: Layer boundaries, at least one, low to high: i is the input of decoder layer
            i, the layer count the output of the last one, FINAL_NORM what the final norm gives.
        hidden_size: Width of one layer's hidden state, at least 1.

    Raises:
        InvalidField: There is no layer or no width, or see `check_feature_layers`.
    """

    feature_layers: tuple[int, ...]
    hidden_size: int

    def __post_init__(self) -> None:
        check_feature_layers(self.feature_layers)
        if not self.feature_layers or self.hidden_size < 1:
            raise InvalidField("feature_layers", "a row of features needs a layer and a width")

    @property
    def row_size(self) -> int:
        """Values of one row, low layer first."""
        return len(self.feature_layers) * self.hidden_size

    def misfit(self, hidden_size: int, layer_count: int) -> str:
        """As `misfit`, of a target whose hidden states must be of the same width besides."""
        if hidden_size and hidden_size != self.hidden_size:
            return f"features of {self.hidden_size} values a layer, the target has {hidden_size}"
        return misfit(self.feature_layers, hidden_size, layer_count)
