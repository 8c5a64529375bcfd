"""The end of a run: the head in a published format, its card, and the picture beside it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead
from outrider.modeling.heads.checkpoints.detection import FORMATS
from outrider.modeling.heads.checkpoints.head_format import HeadNotes
from outrider.modeling.heads.checkpoints.write import document_of, write_head
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.modeling.heads.heads import TARGET_IDS

EMBEDDING, LM_HEAD = "embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True)
class HeadNaming:
    """How a head is written.

    Args:
        format: One of the published formats.
        dtype: Of its weights.
        target: Name of the target.
        context_limit: Positions that the target was made for; None where unknown.
    """

    format: str
    dtype: torch.dtype
    target: str
    context_limit: int | None


def check_format(config: HeadConfig, name: str) -> None:
    """Finds out before a head is trained whether a format can hold it.

    Raises:
        BadCheckpoint: There is no such format, or it has no way to say something.
    """
    if name not in FORMATS:
        raise BadCheckpoint(f"--format {name} is not one of {', '.join(FORMATS)}")
    document_of(config, name, HeadNotes())


def finished_head(
    config: HeadConfig, weights: Mapping[str, Tensor], target_ids: Tensor, naming: HeadNaming
) -> LoadedHead:
    """A trained head in normal form, as its file will hold it.

    Args:
        config: As trained.
        weights: The trained ones, in normal form.
        target_ids: Target id of each draft token.
        naming: How it is written.
    """
    tensors = {name: tensor.to(naming.dtype) for name, tensor in weights.items()}
    borrowed: tuple[str, ...] = (EMBEDDING,)
    if config.kind is HeadKind.EAGLE1:
        # Trained against the frequent tokens only; at work it has the target's whole head.
        config = replace(config, draft_vocab_size=config.vocab_size)
        tensors.pop(LM_HEAD, None)
        borrowed = (EMBEDDING, LM_HEAD)
    elif config.draft_vocab_size != config.vocab_size:
        tensors[TARGET_IDS] = target_ids
    dtype = str(naming.dtype).removeprefix("torch.")
    notes = HeadNotes(naming.target, naming.context_limit, dtype)
    return LoadedHead(config, tensors, naming.format, notes, borrowed)


def write_result(folder: Path, head: LoadedHead, card: str, picture: str) -> None:
    """Writes the head with what belongs to it; files of these names are replaced."""
    write_head(head, head.format, folder)
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / "curves.svg").write_text(picture, encoding="utf-8")


def parameter_count(head: LoadedHead) -> int:
    """Of the head's own tensors."""
    return sum(tensor.numel() for name, tensor in head.tensors.items() if name != TARGET_IDS)
