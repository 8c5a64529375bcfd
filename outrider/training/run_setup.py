"""What a run knows before any tensor is made: its conversations, vocabulary, split and head."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints.feature_layers import LayerNumbering, boundaries
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.training.conversation import Conversation
from outrider.training.initial_head import default_feature_layers, head_config
from outrider.training.recipe import Recipe
from outrider.training.split import Split, split_held_out
from outrider.training.target_folder import TargetFolder
from outrider.training.vocabulary import DraftVocabulary, choose_vocabulary, count_tokens


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
    """

    target: TargetFolder
    recipe: Recipe
    conversations: Sequence[Conversation]
    split: Split
    vocabulary: DraftVocabulary
    config: HeadConfig

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
        return {"target": self.target.mark, "conversations": self.data_mark} | (
            self.recipe.document()
        )

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
) -> Setup:
    """Decides what can be decided from the conversations alone.

    Args:
        target: Whose head it is.
        recipe: As asked for.
        conversations: Of `prepare`.
        end_ids: Tokens that end the target's answers; always among those that can be guessed.

    Raises:
        BadCheckpoint: The target's files lack something, or it has no such layers.
    """
    layers = recipe.feature_layers
    if recipe.kind is HeadKind.EAGLE3 and not layers:
        layers = default_feature_layers(target.files.layer_count)
    if recipe.kind is HeadKind.EAGLE3:
        layers = boundaries(layers, LayerNumbering.BOUNDARIES, target.files.layer_count)
    counts = count_tokens(conversations, target.files.vocab_size, recipe.loss_on)
    vocabulary = choose_vocabulary(counts, recipe.draft_vocab_size, end_ids)
    config = head_config(target.files, recipe.kind, layers, len(vocabulary.target_ids))
    return Setup(
        target=target,
        recipe=replace(recipe, feature_layers=config.feature_layers),
        conversations=conversations,
        split=split_held_out(
            [one.prompt_digest for one in conversations], recipe.held_out_share, recipe.seed
        ),
        vocabulary=vocabulary,
        config=config,
    )
