"""Rotary embeddings equal those of `transformers`, of every type and at any length (B57, B59)."""

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from outrider.modeling.heads.rotary_embedding import RotaryEmbedding

HEAD_DIM = 16
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
TYPES = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn-scaled": {**YARN, "attention_factor": 1.7},
}
POSITIONS = torch.tensor([[0, 1, 5, 63, 64, 2047], [2048, 2049, 9000, 131071, 3, 2]])


@pytest.mark.parametrize("name", TYPES)
def test_queries_turn_as_the_targets_do(name):
    """Positions lie far behind the 2,048 that published heads say."""
    lengths = {"llama3": 512, "yarn": 256, "yarn-scaled": 256}
    config = LlamaConfig(
        hidden_size=4 * HEAD_DIM,
        num_attention_heads=4,
        max_position_embeddings=lengths.get(name, 2048),
        rope_parameters=dict(TYPES[name]),
    )
    heads = torch.randn(2, 6, 4, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    cos, sin = LlamaRotaryEmbedding(config)(heads, POSITIONS)
    expected, _ = apply_rotary_pos_emb(heads, heads, cos, sin, unsqueeze_dim=2)
    ours = RotaryEmbedding(TYPES[name], HEAD_DIM)(POSITIONS, torch.float32).apply(heads)
    torch.testing.assert_close(ours, expected, atol=0, rtol=0)


def test_the_types_differ():
    positions = torch.arange(40, 50)
    turned = [RotaryEmbedding(p, HEAD_DIM)(positions, torch.float32).cos for p in TYPES.values()]
    for i, one in enumerate(turned):
        assert all(not torch.allclose(one, other) for other in turned[:i])


def test_scores_depend_on_distance_alone_however_far():
    rotary = RotaryEmbedding(TYPES["default"], HEAD_DIM)
    query, key = torch.randn(2, 1, 1, HEAD_DIM, generator=torch.Generator().manual_seed(0))

    def score(at: int) -> float:
        there, here = (rotary(torch.tensor([p]), torch.float32) for p in (at, at - 5))
        return float((there.apply(query) * here.apply(key)).sum())

    assert score(100_000) == pytest.approx(score(5), abs=0.05)


def test_frequencies_stay_float32_in_a_low_precision_head():
    rotary = RotaryEmbedding(TYPES["default"], HEAD_DIM)
    exact = rotary(torch.tensor([4097]), torch.float32)
    low = rotary(torch.tensor([4097]), torch.bfloat16)
    assert low.cos.dtype is torch.bfloat16
    torch.testing.assert_close(low.cos, exact.cos.bfloat16(), atol=0, rtol=0)


def test_dimensions_behind_the_rotary_ones_stay():
    rotary = RotaryEmbedding({**TYPES["default"], "partial_rotary_factor": 0.5}, HEAD_DIM)
    heads = torch.randn(3, 2, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    turned = rotary(torch.tensor([1, 2, 3]), torch.float32).apply(heads)
    half = RotaryEmbedding(TYPES["default"], HEAD_DIM // 2)(torch.tensor([1, 2, 3]), torch.float32)
    assert torch.equal(turned[..., 8:], heads[..., 8:])
    torch.testing.assert_close(turned[..., :8], half.apply(heads[..., :8]))


def test_types_that_change_with_length_serve_what_short_sequences_have():
    """Kept keys are rotated already, so only one set of frequencies can serve."""
    positions = torch.arange(10)
    plain = RotaryEmbedding(TYPES["default"], HEAD_DIM)(positions, torch.float32)
    dynamic = {"rope_type": "dynamic", "rope_theta": 500.0, "factor": 2.0}
    longrope = {
        "rope_type": "longrope",
        "rope_theta": 500.0,
        "factor": 1.0,
        "short_factor": [1.0] * (HEAD_DIM // 2),
        "long_factor": [9.0] * (HEAD_DIM // 2),
        "original_max_position_embeddings": 64,
    }
    for parameters in (dynamic, longrope):
        rotation = RotaryEmbedding(parameters, HEAD_DIM)(positions, torch.float32)
        torch.testing.assert_close(rotation.cos, plain.cos)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"rope_type": "default"}, "rope_theta"),
        ({"rope_type": "linear", "rope_theta": 1e4}, "factor"),
        ({k: v for k, v in LLAMA3.items() if k != "low_freq_factor"}, "low_freq_factor"),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}, "original_max_position_embeddi"),
        ({"rope_type": "su", "rope_theta": 1e4}, "'su' is not one of default, linear"),
    ],
)
def test_what_is_missing_is_named_and_never_guessed(parameters, named):
    with pytest.raises(ValueError, match=named):
        RotaryEmbedding(parameters, HEAD_DIM)
