from typing import Any

import pytest

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.rope import resolve_rope, rope_version_4

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
WHOLE = {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"rope_type": "default", "rope_theta": 10000.0}),
        ({"rope_theta": 50000}, {"rope_type": "default", "rope_theta": 50000.0}),
        ({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}}, WHOLE),
        ({"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}}, WHOLE),
        ({"rope_parameters": WHOLE}, WHOLE),
        ({"rope_theta": 5e5, "rope_parameters": {"rope_type": "llama3", **LLAMA3}}, WHOLE),
        # Mirrored in both spellings, as SpecForge writes them.
        ({"rope_theta": 5e5, "rope_scaling": None, "rope_parameters": WHOLE}, WHOLE),
        ({**rope_version_4(WHOLE), "rope_parameters": WHOLE}, WHOLE),
        ({"rope_parameters": {"full_attention": WHOLE, "sliding_attention": WHOLE}}, WHOLE),
        (
            {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
            {"rope_type": "default", "rope_theta": 10000.0},
        ),
    ],
)
def test_both_spellings_are_read(config: dict[str, Any], expected: dict[str, Any]) -> None:  # B57
    assert resolve_rope(ConfigFile(config)) == expected


def test_a_stretched_rope_keeps_the_length_it_stretches_from() -> None:
    config = ConfigFile(
        {"max_position_embeddings": 2048, "rope_scaling": {"type": "yarn", "factor": 4.0}}
    )
    assert resolve_rope(config)["original_max_position_embeddings"] == 2048


def test_the_length_of_an_ordinary_rope_is_not_the_heads() -> None:  # trap 5
    assert "original_max_position_embeddings" not in resolve_rope(
        ConfigFile({"max_position_embeddings": 2048})
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}, "says rope_theta twice"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": WHOLE},
            "twice: 'linear' as transformers 4 does, and 'llama3'",
        ),
        ({"rope_scaling": {"type": "spiral"}}, "rope type 'spiral' is not one of"),
        ({"rope_parameters": {"a": WHOLE, "b": {**WHOLE, "rope_theta": 1.0}}}, "by layer type"),
        ({"rope_scaling": [1]}, "rope_scaling must be an object"),
        ({"rope_theta": "many"}, "rope_theta must be a number above 0"),
    ],
)
def test_contradictions_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(BadCheckpoint, match=message):
        resolve_rope(ConfigFile(config))


@pytest.mark.parametrize(
    "rope", [WHOLE, {"rope_type": "default", "rope_theta": 1e5, "partial_rotary_factor": 0.5}]
)
def test_the_older_spelling_is_read_back(rope: dict[str, Any]) -> None:
    assert resolve_rope(ConfigFile(rope_version_4(rope))) == rope
