"""Which conversations are held out. Pure; the choice depends on the prompts alone."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

MOST_HELD_OUT = 100  # prompts; they are measured again and again


class Split(NamedTuple):
    """Indices of the conversations, rising."""

    training: list[int]
    held_out: list[int]


def split_held_out(
    prompt_digests: Sequence[str], share: float, seed: int, most: int = MOST_HELD_OUT
) -> Split:
    """Holds out whole prompts, so that no answer to a held-out prompt is trained on.

    Args:
        prompt_digests: Of each conversation.
        share: Of the prompts to hold out, 0 to 0.5; at least one where there are two or more.
        seed: Of the choice. A prompt keeps its place in the order when others are added.
        most: Prompts to hold out at most.

    Returns:
        Both lists; held out is empty where share is 0 or all prompts are one.
    """
    prompts = sorted(set(prompt_digests), key=lambda digest: _rank(seed, digest))
    count = min(round(share * len(prompts)), most)
    if share > 0 and len(prompts) > 1:
        count = max(count, 1)
    chosen = set(prompts[:count])
    training = [i for i, digest in enumerate(prompt_digests) if digest not in chosen]
    held_out = [i for i, digest in enumerate(prompt_digests) if digest in chosen]
    return Split(training, held_out)


def _rank(seed: int, digest: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{digest}".encode(), digest_size=16).digest()
