import pytest

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint, TargetNeeded
from outrider.modeling.heads.checkpoints.feature_layers import (
    LayerNumbering,
    boundaries,
    layer_ids,
)

BOUNDARIES, OUTPUTS = LayerNumbering.BOUNDARIES, LayerNumbering.OUTPUTS


@pytest.mark.parametrize(
    ("ids", "numbering", "layer_count", "expected"),
    [
        ([2, 18, 33], BOUNDARIES, 36, (2, 18, 33)),
        ([1, 17, 33], BOUNDARIES, 36, (1, 17, 33)),
        ([1, 46, 90], OUTPUTS, 94, (2, 47, 91)),  # SpecForge's own configurations
        ([1, 17, 33], OUTPUTS, 36, (2, 18, 34)),
        ([2, 18, 33], OUTPUTS, 36, (2, 18, 33)),  # the first id says: boundaries
        ([24, 30, 36], OUTPUTS, 36, (24, 30, 36)),  # NVIDIA's, up to the last boundary
        ([1, 17, 35], OUTPUTS, 36, (2, 18, 36)),
        ([0, 3], BOUNDARIES, 36, (0, 3)),
        (None, BOUNDARIES, 30, (2, 15, 27)),
        (None, OUTPUTS, 30, (2, 15, 27)),
        ([2, 18, 33], BOUNDARIES, None, (2, 18, 33)),
    ],
)
def test_layer_ids_become_boundaries(
    ids: list[int] | None,
    numbering: LayerNumbering,
    layer_count: int | None,
    expected: tuple[int, ...],
) -> None:
    assert boundaries(ids, numbering, layer_count) == expected


@pytest.mark.parametrize(
    ("ids", "numbering", "layer_count", "message"),
    [
        ([24, 30, 37], OUTPUTS, 36, "boundary 37 lies behind the last"),
        ([1, 17, 36], OUTPUTS, 36, "boundary 37 lies behind the last"),
        ([5, 2, 7], BOUNDARIES, 36, r"\[5, 2, 7\] do not rise"),
        ([2, 2, 7], BOUNDARIES, 36, "do not rise"),
        (None, BOUNDARIES, 4, r"a target of 4 layers: boundaries \[2, 2, 1\] do not rise"),
    ],
)
def test_ids_that_cannot_be_meant_are_refused(
    ids: list[int] | None, numbering: LayerNumbering, layer_count: int, message: str
) -> None:
    with pytest.raises(BadCheckpoint, match=message):
        boundaries(ids, numbering, layer_count)


def test_the_default_needs_a_target() -> None:
    with pytest.raises(TargetNeeded, match="--target"):
        boundaries(None, BOUNDARIES, None)


@pytest.mark.parametrize("numbering", LayerNumbering)
@pytest.mark.parametrize("found", [(2, 15, 27), (3, 16, 28), (24, 30, 36), (0, 5), (2, 18, 36)])
def test_what_is_written_is_read_back(found: tuple[int, ...], numbering: LayerNumbering) -> None:
    assert boundaries(layer_ids(found, numbering), numbering, 36) == found


def test_outputs_cannot_say_a_first_boundary_of_one() -> None:
    with pytest.raises(BadCheckpoint, match="cannot be written"):
        layer_ids((1, 14, 26), OUTPUTS)
