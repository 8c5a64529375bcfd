"""The torch form of `outrider/protocol/sampling_noise.py`: the same bits on any device."""

import torch
from torch import Tensor

from outrider.protocol.sampling_noise import (
    DROPPED_BITS,
    MIX_1,
    MIX_2,
    TOKEN_GAMMA,
    UNIFORM_STEP,
    position_key,
)


def gumbel(seed: int, position: int, token_ids: Tensor) -> Tensor:
    """Standard Gumbel noise of some tokens at one position.

    Args:
        seed: The request's seed, 0 to 2**64 - 1.
        position: Absolute position of the token to be drawn.
        token_ids: int64 `[num_tokens]`.

    Returns:
        float64 `[num_tokens]`, on the device of `token_ids`.
    """
    bits = token_ids * _signed(TOKEN_GAMMA) + _signed(position_key(seed, position))
    bits = (bits ^ _shifted(bits, 30)) * _signed(MIX_1)
    bits = (bits ^ _shifted(bits, 27)) * _signed(MIX_2)
    bits = bits ^ _shifted(bits, 31)
    numerators = 2.0 * _shifted(bits, DROPPED_BITS).to(torch.float64) + 1.0
    return -torch.log(-torch.log(numerators * UNIFORM_STEP))


def _signed(value: int) -> int:
    """The int64 with the bits of a 64-bit number."""
    return value - 2**64 if value >= 2**63 else value


def _shifted(bits: Tensor, count: int) -> Tensor:
    """Logical shift to the right: torch's own copies the sign."""
    shifted: Tensor = (bits >> count) & (2 ** (64 - count) - 1)
    return shifted
