"""What a run knows before any tensor is made: its conversations, vocabulary, split and head."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.modeling.heads.checkpoints import BadCheckpoint, LoadedHead
from outrider.modeling.heads.checkpoints.feature_layers import LayerNumbering, boundaries
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.modeling.heads.heads import TARGET_IDS
from outrider.training.conversation import Conversation
from outrider.training.initial_head import default_feature_layers, head_config
from outrider.training.recipe import Recipe
from outrider.training.split import Split, split_held_out
from outrider.training.target_folder import TargetFolder
from outrider.training.vocabulary import (
    DraftVocabulary,
    choose_vocabulary,
    count_tokens,
    vocabulary_of,
)


@dataclass(frozen=True, slots=True)
class Setup:
    """A run, decided.

    Args:
        target: Whose head it is.
        recipe: With the feature layers filled in.
        conversations: All, held-out ones too.
        split: Which are trained on.
        vocabulary: What the head can guess.
        config: The head.
        earlier: The head that training goes on from; None where it begins anew.
    """

    target: TargetFolder
    recipe: Recipe
    conversations: Sequence[Conversation]
    split: Split
    vocabulary: DraftVocabulary
    config: HeadConfig
    earlier: LoadedHead | None = None

    @property
    def target_ids(self) -> Tensor:
        """Target id of each draft token, int64 `[draft_vocab_size]`."""
        return torch.from_numpy(self.vocabulary.target_ids)

    @property
    def data_mark(self) -> str:
        """Hash of the conversations."""
        digest = hashlib.sha256("".join(one.digest for one in self.conversations).encode())
        return digest.hexdigest()[:32]

    @property
    def feature_key(self) -> dict[str, Any]:
        """What stored features depend on."""
        vocabulary = hashlib.sha256(self.vocabulary.target_ids.astype("<i8").tobytes())
        return {
            "target": self.target.mark,
            "feature_layers": list(self.config.feature_layers),
            "vocabulary": vocabulary.hexdigest()[:32],
            "likely": self.recipe.likely_count,
            "loss_on": self.recipe.loss_on,
        }

    @property
    def run_key(self) -> dict[str, Any]:
        """What the trained head depends on."""
        return {
            "target": self.target.mark,
            "conversations": self.data_mark,
            "from_head": tensors_mark(self.earlier.tensors) if self.earlier else "",
            **self.recipe.document(),
        }

    @property
    def baseline(self) -> float:
        """Share of held-out guesses that always saying their commonest token gets right."""
        held_out = [self.conversations[index] for index in self.split.held_out]
        counts = count_tokens(held_out, self.config.vocab_size, self.recipe.loss_on)
        return float(counts.max() / max(counts.sum(), 1))


def set_up(
    target: TargetFolder,
    recipe: Recipe,
    conversations: Sequence[Conversation],
    end_ids: Sequence[int],
    earlier: LoadedHead | None = None,
) -> Setup:
    """Decides what can be decided from the conversations alone.

    Args:
        target: Whose head it is.
        recipe: As asked for.
        conversations: Of `prepare`.
        end_ids: Tokens that end the target's answers; always among those that can be guessed.
        earlier: The head to go on from: its layers and vocabulary are kept.

    Raises:
        BadCheckpoint: The target's files lack something, it has no such layers, or the earlier
            head is of another kind.
    """
    counts = count_tokens(conversations, target.files.vocab_size, recipe.loss_on)
    if earlier is None:
        vocabulary, config = _decide(target, recipe, counts, end_ids)
    else:
        vocabulary, config = _taken_over(earlier, recipe, counts)
    return Setup(
        target=target,
        recipe=replace(recipe, feature_layers=config.feature_layers),
        conversations=conversations,
        split=split_held_out(
            [one.prompt_digest for one in conversations], recipe.held_out_share, recipe.seed
        ),
        vocabulary=vocabulary,
        config=config,
        earlier=earlier,
    )


def tensors_mark(tensors: Mapping[str, Tensor]) -> str:
    """Hash of a head's tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().double().sum().numpy().tobytes())
    return digest.hexdigest()[:32]


def _taken_over(
    earlier: LoadedHead, recipe: Recipe, counts: NDArray[np.int64]
) -> tuple[DraftVocabulary, HeadConfig]:
    if earlier.config.kind is not recipe.kind:
        raise BadCheckpoint(f"--from-head is an {earlier.config.kind} head, not {recipe.kind}")
    every = torch.arange(earlier.config.vocab_size)
    target_ids = earlier.tensors.get(TARGET_IDS, every).numpy()
    return vocabulary_of(target_ids, counts), earlier.config


def _decide(
    target: TargetFolder, recipe: Recipe, counts: NDArray[np.int64], end_ids: Sequence[int]
) -> tuple[DraftVocabulary, HeadConfig]:
    layers = recipe.feature_layers
    if recipe.kind is HeadKind.EAGLE3 and not layers:
        layers = default_feature_layers(target.files.layer_count)
    if recipe.kind is HeadKind.EAGLE3:
        layers = boundaries(layers, LayerNumbering.BOUNDARIES, target.files.layer_count)
    vocabulary = choose_vocabulary(counts, recipe.draft_vocab_size, end_ids)
    config = head_config(target.files, recipe.kind, layers, len(vocabulary.target_ids))
    return vocabulary, config
