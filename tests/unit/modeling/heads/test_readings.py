from typing import Any

import pytest

from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.heads import expected_shapes
from outrider.modeling.heads.readings import other_readings
from tests.unit.modeling.heads.tiny_heads import eagle1_config, eagle3_config


@pytest.mark.parametrize(
    ("layers", "found"),
    [
        ((2, 15, 27), {"layers one lower": (1, 14, 26), "layers one higher": (3, 16, 28)}),
        ((0, 15, 30), {}),
    ],
)
def test_layers_are_read_one_off_where_there_are_such(
    layers: tuple[int, ...], found: dict[str, tuple[int, ...]]
) -> None:
    readings = other_readings(eagle3_config(feature_layers=layers), layer_count=30)
    shifted = {name: config.feature_layers for name, config in readings.items() if "one" in name}
    assert shifted == found


@pytest.mark.parametrize("options", [{}, {"norm_output": True, "norm_before_residual": True}])
def test_switches_are_read_the_other_way(options: dict[str, Any]) -> None:
    word = "off" if options else "on"
    readings = other_readings(eagle3_config(**options), layer_count=30)
    assert readings[f"norm_output {word}"].norm_output is not options.get("norm_output", False)
    assert f"norm_before_residual {word}" in readings


@pytest.mark.parametrize("config", [eagle3_config(), eagle1_config()])
def test_the_same_tensors_fit_every_reading(config: HeadConfig) -> None:
    readings = other_readings(config, layer_count=30)
    assert readings
    for reading in readings.values():
        assert expected_shapes(reading) == expected_shapes(config)
