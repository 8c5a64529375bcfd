"""Loads a head of any of the four formats into normal form, from safetensors only.

Two halves: `read_head` knows the head's own files, `fit_to_target` what it takes from its target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch import Tensor

from outrider.modeling.heads.checkpoints.config_file import ConfigFile, read_config_file
from outrider.modeling.heads.checkpoints.detection import detect_format
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.head_format import HeadFormat, HeadNotes
from outrider.modeling.heads.checkpoints.target_files import TargetFiles
from outrider.modeling.heads.checkpoints.tensor_check import (
    BORROWED,
    EMBEDDING,
    OUTPUT_HEAD,
    check_tensors,
)
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder, TensorSource
from outrider.modeling.heads.checkpoints.vocabulary import check_t2d, target_ids_of
from outrider.modeling.heads.head_config import HeadConfig
from outrider.modeling.heads.heads import TARGET_IDS

_MAPS: Final = ("d2t", "t2d")


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head in normal form.

    Args:
        config: What it is.
        tensors: By normal name; with a reduced vocabulary `target_ids` too, int64
            `[draft_vocab_size]`, absolute.
        format: Name of the format it was found in.
        notes: What else its file says.
        borrowed: Names of the tensors that are the target's.
    """

    config: HeadConfig
    tensors: dict[str, Tensor]
    format: str
    notes: HeadNotes
    borrowed: tuple[str, ...] = ()


def load_head(folder: Path, target: TargetFiles) -> LoadedHead:
    """Loads a head for its target.

    Args:
        folder: Holds `config.json` and safetensors.
        target: What the head was made for.

    Returns:
        All tensors that the head computes with, on the CPU, in the dtypes they are stored in.

    Raises:
        BadCheckpoint: The head is of no known format, does not fit the target, or a tensor is
            missing, unknown or misshaped; the message names it.
    """
    try:
        config, source = read_config_file(folder), SafetensorsFolder(folder)
        return fit_to_target(read_head(config, source, target.layer_count), target)
    except BadCheckpoint as error:
        raise BadCheckpoint(f"head {folder}: {error}") from None


def read_head(
    config: ConfigFile,
    source: TensorSource,
    layer_count: int | None,
    on_tensor: Callable[[int], None] = lambda size: None,
) -> LoadedHead:
    """Reads what a head's own files hold.

    Args:
        config: Its `config.json`.
        source: Its tensors.
        layer_count: Decoder layers of the target; None where no target is at hand.
        on_tensor: Told the bytes of each tensor that has been read.

    Raises:
        BadCheckpoint: See `load_head`.
    """
    found = detect_format(config, source.shapes)
    head = found.head_config(config, source.shapes, layer_count)
    names = _normal_names(found, source)
    shapes = {normal: source.shapes[name] for normal, name in names.items()}
    check_tensors(head, shapes, found.file_name)
    tensors = {}
    for normal, name in names.items():
        tensors[normal] = source.read(name)
        on_tensor(tensors[normal].nbytes)
    tensors |= _vocabulary_map(head, source)
    return LoadedHead(head, tensors, found.name, _notes(config, tensors))


def fit_to_target(head: LoadedHead, target: TargetFiles) -> LoadedHead:
    """Takes from the target what the head lacks; its own tensors are kept.

    Args:
        head: As `read_head` gives it.
        target: What it was made for.

    Raises:
        BadCheckpoint: The sizes differ, or what is missing cannot be the target's.
    """
    config = head.config
    _check_size("target_hidden_size", config.target_hidden_size, target.hidden_size)
    _check_size("vocab_size", config.vocab_size, target.vocab_size)
    missing = tuple(name for name in BORROWED if name not in head.tensors)
    if missing and config.hidden_size != target.hidden_size:
        raise BadCheckpoint(
            f"{missing[0]} is missing, and the target's is {target.hidden_size} wide where this "
            f"head takes {config.hidden_size}"
        )
    tensors = dict(head.tensors)
    if EMBEDDING in missing:
        tensors[EMBEDDING] = target.embed_tokens()
    if OUTPUT_HEAD in missing:
        if TARGET_IDS in tensors:
            raise BadCheckpoint(
                f"{OUTPUT_HEAD} is missing, and the target's cannot stand in: the head has a "
                f"vocabulary of {config.draft_vocab_size} of its own"
            )
        tensors[OUTPUT_HEAD] = target.lm_head()
    return LoadedHead(config, tensors, head.format, head.notes, missing)


def _normal_names(found: HeadFormat, source: TensorSource) -> dict[str, str]:
    """File names by normal name, the vocabulary map left out."""
    names: dict[str, str] = {}
    for name in source.shapes:
        if name in _MAPS:
            continue
        normal = found.normal_name(name)
        if normal in names:
            raise BadCheckpoint(f"{names[normal]} and {name} are the same tensor twice")
        names[normal] = name
    return names


def _vocabulary_map(head: HeadConfig, source: TensorSource) -> dict[str, Tensor]:
    if "d2t" not in source.shapes:
        if head.draft_vocab_size != head.vocab_size:
            raise BadCheckpoint(
                f"d2t is missing: the head's vocabulary of {head.draft_vocab_size} is not the "
                f"target's of {head.vocab_size}"
            )
        return {}
    target_ids = target_ids_of(source.read("d2t"), head.draft_vocab_size, head.vocab_size)
    if "t2d" in source.shapes:
        check_t2d(source.read("t2d"), target_ids, head.vocab_size)
    is_same = bool((target_ids.diff() == 1).all()) and len(target_ids) == head.vocab_size
    return {} if is_same else {TARGET_IDS: target_ids}


def _notes(config: ConfigFile, tensors: dict[str, Tensor]) -> HeadNotes:
    verifier = config.section("speculators_config").section("verifier")
    layer = config.section("transformer_layer_config")
    limit = {**layer, **config}.get("max_position_embeddings")
    return HeadNotes(
        verifier=verifier.word("name_or_path", ""),
        context_limit=limit if isinstance(limit, int) else None,
        dtype=str(tensors["fc.weight"].dtype).removeprefix("torch."),
    )


def _check_size(name: str, own: int, of_target: int) -> None:
    if own != of_target:
        raise BadCheckpoint(f"made for a target with {name} {own}; this one has {of_target}")
