"""Tiny heads and conversations, random but always the same."""

from dataclasses import replace

import numpy as np
import torch

from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind
from outrider.modeling.heads.heads import TARGET_IDS, build_head, expected_shapes
from outrider.training.captured import Captured
from outrider.training.conversation import Conversation, LossOn
from outrider.training.head_training import TrainableHead
from outrider.training.training_data import TrainingData

VOCAB, DRAFT_VOCAB, WIDTH, STEPS = 31, 13, 16, 4

EAGLE3 = HeadConfig(
    kind=HeadKind.EAGLE3,
    hidden_size=WIDTH,
    target_hidden_size=WIDTH,
    intermediate_size=24,
    num_layers=1,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    vocab_size=VOCAB,
    draft_vocab_size=DRAFT_VOCAB,
    feature_layers=(1, 2, 3),
    rms_norm_eps=1e-6,
    hidden_act="silu",
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
)
EAGLE1 = replace(EAGLE3, kind=HeadKind.EAGLE1, feature_layers=(FINAL_NORM,), fc_bias=True)
CONFIGS = {
    "eagle3": EAGLE3,
    "two layers": replace(EAGLE3, num_layers=2, norm_output=True),
    "eagle1": EAGLE1,
}


def make_head(config: HeadConfig, seed: int = 0, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.randn(shape, generator=generator) * (0.4 if len(shape) > 1 else 0.1)
        + (1.0 if name.endswith("norm.weight") else 0.0)
        for name, shape in expected_shapes(config).items()
    }
    tensors[TARGET_IDS] = torch.arange(0, 2 * DRAFT_VOCAB, 2)
    head = build_head(config, tensors, dtype, "cpu")
    assert isinstance(head, TrainableHead)
    head.embed_tokens.weight.requires_grad_(False)
    return head


def make_conversations(count: int, seed: int = 0) -> list[Conversation]:
    rng = np.random.default_rng(seed)
    conversations = []
    for _ in range(count):
        length = int(rng.integers(4, 14))
        # Mostly tokens that can be guessed, which are the even ones.
        ids = rng.integers(0, DRAFT_VOCAB, length) * 2 + (rng.random(length) < 0.1)
        prompt = int(rng.integers(1, length - 1))
        conversations.append(Conversation(ids.astype(np.int32), prompt))
    return conversations


def draft_ids() -> np.ndarray:
    ids = np.full(VOCAB, -1, dtype=np.int64)
    ids[np.arange(0, 2 * DRAFT_VOCAB, 2)] = np.arange(DRAFT_VOCAB)
    return ids


def capture(conversations, config: HeadConfig, likely: int = 3):
    """A source of features that depend on the conversation alone."""

    def source(indices) -> Captured:
        parts = []
        for index in indices:
            generator = torch.Generator().manual_seed(1000 + index)
            rows = len(conversations[index])
            features = torch.randn(rows, config.feature_size, generator=generator)
            logits = torch.randn(rows, DRAFT_VOCAB, generator=generator) * 2
            probs, ids = logits.softmax(-1).topk(likely)
            parts.append((features.bfloat16(), ids.int(), probs.half()))
        return Captured(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))

    return source


def make_data(conversations, config: HeadConfig, steps: int = STEPS) -> TrainingData:
    return TrainingData(
        conversations,
        draft_ids(),
        capture(conversations, config),
        LossOn.ANSWER,
        steps,
        torch.device("cpu"),
    )
