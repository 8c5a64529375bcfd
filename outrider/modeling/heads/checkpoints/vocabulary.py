"""The reduced vocabulary of a head: offsets in files, absolute target ids in memory.

`d2t[i]` is an offset: draft token i is target token `i + d2t[i]`. `t2d` marks the target tokens
that have a draft token; it says nothing new and is only checked.
"""

import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints.errors import BadCheckpoint


def target_ids_of(d2t: Tensor, draft_vocab_size: int, vocab_size: int) -> Tensor:
    """Target token id of each draft token.

    Args:
        d2t: Offsets, whole numbers, `[draft_vocab_size]`.
        draft_vocab_size: Vocabulary of the head.
        vocab_size: Vocabulary of the target.

    Returns:
        int64 `[draft_vocab_size]`, distinct, each from 0 to `vocab_size - 1`.

    Raises:
        BadCheckpoint: The table has another form, leaves the target's vocabulary or repeats a
            token.
    """
    if tuple(d2t.shape) != (draft_vocab_size,):
        raise BadCheckpoint(f"d2t is {list(d2t.shape)}, expected [{draft_vocab_size}]")
    if d2t.dtype == torch.bool or d2t.is_floating_point() or d2t.is_complex():
        raise BadCheckpoint(f"d2t must hold whole numbers, not {d2t.dtype}")
    offsets = d2t.to(torch.int64)
    target_ids = offsets + torch.arange(draft_vocab_size)
    outside = (target_ids < 0) | (target_ids >= vocab_size)
    if bool(outside.any()):
        draft_id = int(outside.nonzero()[0])
        raise BadCheckpoint(
            f"d2t[{draft_id}] leads to target token {int(target_ids[draft_id])}, outside the "
            f"vocabulary of {vocab_size}{_index_table_hint(offsets, vocab_size)}"
        )
    uses = target_ids.bincount()
    if int(uses.max()) > 1:
        repeated = int(uses.argmax())
        raise BadCheckpoint(
            f"d2t leads {int(uses[repeated])} draft tokens to target token {repeated}"
            f"{_index_table_hint(offsets, vocab_size)}"
        )
    return target_ids


def check_t2d(t2d: Tensor, target_ids: Tensor, vocab_size: int) -> None:
    """Compares `t2d` with what `d2t` says.

    Args:
        t2d: True for target tokens that have a draft token, `[vocab_size]`.
        target_ids: int64 `[draft_vocab_size]`.
        vocab_size: Vocabulary of the target.

    Raises:
        BadCheckpoint: The two contradict each other.
    """
    if tuple(t2d.shape) != (vocab_size,):
        raise BadCheckpoint(f"t2d is {list(t2d.shape)}, expected [{vocab_size}]")
    wrong = t2d.bool() ^ t2d_of(target_ids, vocab_size)
    if bool(wrong.any()):
        token_id = int(wrong.nonzero()[0])
        hint = _index_table_hint(d2t_of(target_ids), vocab_size)
        raise BadCheckpoint(f"t2d and d2t contradict each other at target token {token_id}{hint}")


def d2t_of(target_ids: Tensor) -> Tensor:
    """The offsets that a file holds, int64 `[draft_vocab_size]`."""
    return target_ids - torch.arange(len(target_ids))


def t2d_of(target_ids: Tensor, vocab_size: int) -> Tensor:
    """The marks that a file holds, bool `[vocab_size]`."""
    marks = torch.zeros(vocab_size, dtype=torch.bool)
    marks[target_ids] = True
    return marks


def _index_table_hint(offsets: Tensor, vocab_size: int) -> str:
    is_index_table = bool((offsets.diff() > 0).all()) and int(offsets[0]) >= 0
    if is_index_table and int(offsets[-1]) < vocab_size:
        return "; it looks like a table of token ids, where offsets are expected"
    return ""
