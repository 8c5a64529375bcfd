import pytest

from outrider.protocol.errors import InvalidField
from outrider.protocol.features import (
    FINAL_NORM,
    FeatureLayout,
    TensorType,
    check_feature_layers,
    misfit,
)


@pytest.mark.parametrize("layers", [(), (0,), (FINAL_NORM,), (2, 15, 27), (2, 30, FINAL_NORM)])
def test_layers_go_from_low_to_high(layers):
    check_feature_layers(layers)


@pytest.mark.parametrize(
    ("layers", "place"),
    [((-2,), 0), ((2, 2), 1), ((15, 2), 1), ((FINAL_NORM, 2), 1), ((0, FINAL_NORM, -1), 2)],
)
def test_layers_that_do_not_rise_are_named(layers, place):
    with pytest.raises(InvalidField) as caught:
        check_feature_layers(layers)
    assert caught.value.field == f"feature_layers[{place}]"


def test_a_row_is_as_wide_as_all_its_layers():
    """B42: a head that reads three layers gets three hidden states, not one."""
    assert FeatureLayout((2, 15, 27), 576).row_size == 3 * 576
    assert FeatureLayout((FINAL_NORM,), 576).row_size == 576


@pytest.mark.parametrize(("layers", "width"), [((), 576), ((2,), 0), ((3, 2), 576)])
def test_a_layout_without_values_or_order_is_refused(layers, width):
    with pytest.raises(InvalidField, match="feature_layers"):
        FeatureLayout(layers, width)


@pytest.mark.parametrize(
    ("hidden_size", "layer_count", "words"),
    [
        (576, 30, ""),
        (576, 27, ""),
        (576, 26, "layer 27, the target has 26 layers"),
        (960, 30, "576 values a layer, the target has 960"),
        (0, 0, "the target gives none"),
    ],
)
def test_a_target_fits_a_layout_or_says_why_not(hidden_size, layer_count, words):
    problem = FeatureLayout((2, 15, 27), 576).misfit(hidden_size, layer_count)
    assert words in problem
    assert bool(words) == bool(problem)


def test_the_final_norm_fits_any_target():
    assert not misfit((FINAL_NORM,), 8, 1)


def test_a_row_must_fit_a_frame():
    assert not misfit(tuple(range(64)), 16384, 64)
    assert "more than a frame" in misfit(tuple(range(65)), 16384, 64)


def test_sizes_of_elements():
    assert [one.size for one in TensorType] == [4, 2, 2]
