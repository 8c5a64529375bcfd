"""Rotary position embedding of a head, computed for the positions at hand.

There is no table, so nothing limits the length: published heads say 2,048 positions whatever their
target's context is (`max_position_embeddings` never reaches this file). Frequencies are those of
`transformers`, so that a head rotates exactly as its target does.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

_NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "factor", "original_max_position_embeddings"),
}


class Rotation(NamedTuple):
    """The rotation of some rows.

    Args:
        cos: `[..., num_rows, 1, rotary_dim]`, the attention scaling factor applied.
        sin: The same of the sine.
    """

    cos: Tensor
    sin: Tensor

    def apply(self, heads: Tensor) -> Tensor:
        """Rotates queries or keys `[..., num_rows, heads, head_dim]`; dimensions behind the
        rotary ones stay as they are."""
        rotary_dim = self.cos.shape[-1]
        turned, rest = heads[..., :rotary_dim], heads[..., rotary_dim:]
        low, high = turned.chunk(2, dim=-1)
        turned = turned * self.cos + torch.cat([-high, low], dim=-1) * self.sin
        return torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned


class RotaryEmbedding:
    """Positions to rotations. Not a module: its frequencies stay float32 whatever the head's dtype.

    Where a type changes its frequencies with the length of the sequence (`dynamic`, `longrope`),
    those of short sequences serve throughout: keys that are kept are rotated already.

    Args:
        rope_parameters: As in `HeadConfig`.
        head_dim: Size of one head, even.

    Raises:
        ValueError: A type that is not known, or a parameter that it needs is missing.
    """

    def __init__(self, rope_parameters: Mapping[str, Any], head_dim: int) -> None:
        self._frequencies, self._scaling = _frequencies(rope_parameters, head_dim)

    def __call__(self, position_ids: Tensor, dtype: torch.dtype) -> Rotation:
        """Rotations of positions, int64 `[..., num_rows]`, in a dtype."""
        if self._frequencies.device != position_ids.device:
            self._frequencies = self._frequencies.to(position_ids.device)
        angles = position_ids[..., None].float() * self._frequencies
        angles = torch.cat([angles, angles], dim=-1)[..., None, :]
        cos, sin = angles.cos(), angles.sin()
        if self._scaling != 1.0:
            cos, sin = cos * self._scaling, sin * self._scaling
        return Rotation(cos.to(dtype), sin.to(dtype))


def _frequencies(parameters: Mapping[str, Any], head_dim: int) -> tuple[Tensor, float]:
    """Inverse frequencies, float32 `[rotary_dim / 2]`, and the attention scaling factor."""
    rope_type = parameters.get("rope_type", "default")
    given = dict(parameters)
    if rope_type == "default":  # what `linear` is with a factor of one
        rope_type, given["factor"] = "linear", 1.0
    if rope_type not in _NEEDED:
        raise ValueError(f"rope_type {rope_type!r} is not one of default, {', '.join(_NEEDED)}")
    missing = [name for name in ("rope_theta", *_NEEDED[rope_type]) if given.get(name) is None]
    if missing:
        raise ValueError(f"rope_parameters of type {rope_type} lack {', '.join(missing)}")
    config = LlamaConfig(hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim)
    # Set afterwards: the constructor compares it with a length that heads do not have.
    config.rope_parameters = {**given, "rope_type": rope_type}
    frequencies, scaling = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"))
    return frequencies, float(scaling)
