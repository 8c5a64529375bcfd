"""Tiny random targets of several families, made on the spot."""

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
)

from outrider.modeling.ragged_attention import ATTENTION_NAME
from outrider.modeling.target import TargetModel

VOCAB = 61
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 0,
    "bos_token_id": 1,
    "pad_token_id": 0,
}


def configs() -> dict[str, PretrainedConfig]:
    return {
        "llama": LlamaConfig(**_COMMON, tie_word_embeddings=True),
        "qwen2": Qwen2Config(**_COMMON),
        "mistral-window": MistralConfig(**_COMMON, sliding_window=6),
        "gemma2-softcap": Gemma2Config(
            **_COMMON, head_dim=8, sliding_window=6, attn_logit_softcapping=5.0
        ),
        "gpt-oss-sinks": GptOssConfig(
            **_COMMON, head_dim=8, num_local_experts=2, num_experts_per_tok=1, sliding_window=6
        ),
    }


def plain_model(family: str, seed: int = 0):
    """The model with `transformers`' own attention, weights wide enough to disagree."""
    config = configs()[family]
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.25)
    return model.eval()


def target_model(family: str, seed: int = 0, slots: int = 512) -> TargetModel:
    """The same weights as a target with a pool."""
    model = plain_model(family, seed)
    model.set_attn_implementation(ATTENTION_NAME)
    target = TargetModel(model)
    target.allocate(slots)
    return target
