"""Sampling noise keyed by (seed, absolute position, token id), never consumed from a stream.

`token = argmax(log p(token) + gumbel(seed, position, token))`: the text is a pure function of
prompt, parameters and seed, whatever the tree, the batch, the worker or a crash in between.

The hash is SplitMix64's finaliser (Steele, Lea, Flood 2014) applied once for each part of the key.
This is the numpy form, for draft workers and as the reference; `outrider/modeling/noise.py` gives
the same bits in torch.
"""

import numpy as np
import numpy.typing as npt

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
POSITION_GAMMA = 0xD1342543DE82EF95
TOKEN_GAMMA = 0xDABA0B6EB09322E3
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
MASK_64 = 2**64 - 1

DROPPED_BITS = 12  # 52 bits remain, so that the odd numerators below are exact in float64
UNIFORM_STEP = 2.0**-53


def mix64(value: int) -> int:
    """SplitMix64's finaliser of one 64-bit number: each input bit flips half of the output's."""
    value = ((value ^ (value >> 30)) * MIX_1) & MASK_64
    value = ((value ^ (value >> 27)) * MIX_2) & MASK_64
    return value ^ (value >> 31)


def position_key(seed: int, position: int) -> int:
    """Key of all tokens at one position.

    Args:
        seed: The request's seed, 0 to 2**64 - 1.
        position: Absolute position of the token to be drawn, prompt included, from 0.

    Returns:
        A 64-bit number.
    """
    keyed = mix64((seed + GOLDEN_GAMMA) & MASK_64)
    return mix64((keyed + position * POSITION_GAMMA) & MASK_64)


def uniform(key: int, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Uniform numbers strictly inside (0, 1), on a grid of 2**-53.

    Args:
        key: Of `position_key`.
        token_ids: `[num_tokens]`.

    Returns:
        `[num_tokens]`.
    """
    bits = token_ids.astype(np.uint64) * np.uint64(TOKEN_GAMMA) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(MIX_1)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(MIX_2)
    bits = bits ^ (bits >> np.uint64(31))
    numerators = 2.0 * (bits >> np.uint64(DROPPED_BITS)).astype(np.float64) + 1.0
    return numerators * UNIFORM_STEP


def gumbel(seed: int, position: int, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Standard Gumbel noise of some tokens at one position, float64 `[num_tokens]`."""
    return -np.log(-np.log(uniform(position_key(seed, position), token_ids)))
