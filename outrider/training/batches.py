"""Which conversations are trained on together, and on which rank. Pure.

The plan depends on lengths and seed only: a resumed run, and every rank, makes the same one.
"""

from collections.abc import Sequence

import numpy as np


def plan_epoch(lengths: Sequence[int], batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Shuffles the conversations and cuts them into batches.

    Args:
        lengths: Tokens of each conversation.
        batch_tokens: Most tokens of a batch; a longer conversation is a batch of its own.
        seed: Of the run.
        epoch: From 0; each has its own order.

    Returns:
        Indices, each exactly once.
    """
    order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
    return pack([int(index) for index in order], lengths, batch_tokens)


def pack(indices: Sequence[int], lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    """Cuts a list into runs of at most so many tokens, in order; none is empty."""
    packs: list[list[int]] = []
    room = 0
    for index in indices:
        if not packs or lengths[index] > room:
            packs.append([])
            room = most_tokens
        packs[-1].append(index)
        room -= lengths[index]
    return packs


def share_out(
    batch: Sequence[int], lengths: Sequence[int], ranks: int, micro_tokens: int
) -> list[list[list[int]]]:
    """Deals one batch to the ranks, and cuts each share into forward passes.

    Args:
        batch: Indices of conversations.
        lengths: Tokens of each conversation.
        ranks: Processes, at least 1.
        micro_tokens: Most tokens of one forward pass.

    Returns:
        Indices by rank and pass. Every rank has as many passes, since they synchronise; a pass may
        be empty where a rank has nothing left.
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    # Longest first to whoever has least: even shares, as far as whole conversations allow.
    for index in sorted(batch, key=lambda one: (-lengths[one], one)):
        rank = loads.index(min(loads))
        shares[rank].append(index)
        loads[rank] += lengths[index]
    passes = [pack(share, lengths, micro_tokens) for share in shares]
    count = max(len(one) for one in passes)
    return [one + [[] for _ in range(count - len(one))] for one in passes]
