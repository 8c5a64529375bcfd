"""A tiny random target with a tiny random head, and the slow way to ask the head."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.modeling.heads.causal_attention import causal_attend
from outrider.modeling.heads.draft_head import DraftHead
from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind
from outrider.modeling.heads.heads import build_head, expected_shapes
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows

VOCAB, DRAFT_VOCAB, HIDDEN = 61, 40, 32
LAYERS = {HeadKind.EAGLE3: (0, 1, 2), HeadKind.EAGLE1: (FINAL_NORM,)}


def head_config(kind: HeadKind, num_layers: int = 1) -> HeadConfig:
    return HeadConfig(
        kind=kind,
        hidden_size=HIDDEN,
        target_hidden_size=HIDDEN,
        intermediate_size=48,
        num_layers=num_layers,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        vocab_size=VOCAB,
        draft_vocab_size=DRAFT_VOCAB,
        feature_layers=LAYERS[kind],
        rms_norm_eps=1e-5,
        hidden_act="silu",
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )


def random_head(kind: HeadKind, seed: int = 0, num_layers: int = 1) -> DraftHead:
    """Weights wide enough to disagree; a vocabulary of its own."""
    config = head_config(kind, num_layers)
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator) / 4
        for name, shape in expected_shapes(config).items()
    }
    ids = torch.randperm(VOCAB, generator=generator)[:DRAFT_VOCAB]
    tensors["target_ids"] = ids.sort().values
    return build_head(config, tensors, torch.float32, "cpu")


@dataclass(frozen=True)
class Recording:
    """What a target wrote.

    Args:
        token_ids: Prompt and answer.
        prompt_length: Tokens of the prompt.
        features: Of each position, `[num_tokens, feature_size]`.
    """

    token_ids: list[int]
    prompt_length: int
    features: Tensor

    def rows(self, session_id: bytes, start: int, stop: int) -> FeatureRows:
        """Rows [start, stop) as they would arrive."""
        part = self.features[start:stop].contiguous()
        return FeatureRows(
            session_id, 0, start, stop - start, part.shape[1], TensorType.FLOAT32,
            part.numpy().tobytes(),
        )  # fmt: skip


def tiny_target(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
        eos_token_id=0, bos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.25)
    return model


@torch.inference_mode()
def features_of(kind: HeadKind, token_ids: list[int], model: LlamaForCausalLM) -> Tensor:
    """Of each position, `[num_tokens, feature_size]`."""
    states = model(torch.tensor([token_ids]), output_hidden_states=True).hidden_states
    # The last state of `transformers` is the normed one.
    return torch.cat([states[layer][0] for layer in LAYERS[kind]], dim=-1)


@torch.inference_mode()
def record(kind: HeadKind, prompt_length: int, answer_length: int = 8, seed: int = 0) -> Recording:
    """Lets the tiny target answer a random prompt greedily."""
    model, generator = tiny_target(), torch.Generator().manual_seed(seed)
    token_ids: list[int] = torch.randint(2, VOCAB, (prompt_length,), generator=generator).tolist()
    while len(token_ids) < prompt_length + answer_length:
        logits = model(torch.tensor([token_ids])).logits
        token_ids.append(int(logits[0, -1].argmax()))
    return Recording(token_ids, prompt_length, features_of(kind, token_ids, model))


@torch.inference_mode()
def slow_guesses(
    head: DraftHead, recording: Recording, true_rows: int, path: tuple[int, ...], width: int
) -> list[tuple[int, float]]:
    """What follows behind `true_rows` rows and a path: whole sequences anew for each step of it."""
    hidden = head.fuse(recording.features[:true_rows])
    token_ids = recording.token_ids[1 : true_rows + 1]
    for step in (*path, None):
        count = len(token_ids)
        output = head(torch.tensor(token_ids), hidden, torch.arange(count), causal_attend)
        if step is not None:
            hidden = torch.cat([hidden, output.feedback[-1:]])
            token_ids = [*token_ids, step]
    probs, draft_ids = head.logits(output.logit_input[-1]).softmax(dim=-1).topk(width)
    assert head.target_ids is not None
    return list(zip(head.target_ids[draft_ids].tolist(), probs.tolist(), strict=True))
