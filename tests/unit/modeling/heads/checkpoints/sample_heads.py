"""Tiny heads and a tiny target as others publish them, written by hand, not by our writers."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from outrider.modeling.heads.checkpoints import TargetFiles

LAYERS, SIZE, INNER, VOCAB, DRAFT_VOCAB = 10, 8, 12, 16, 6
HEADS, KV_HEADS, HEAD_DIM = 2, 1, 4

TARGET_IDS = [0, 2, 3, 7, 8, 15]  # of the draft tokens, absolute
D2T = [0, 1, 1, 4, 4, 10]

SIZES: dict[str, Any] = {
    "hidden_size": SIZE,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "vocab_size": VOCAB,
    "max_position_embeddings": 2048,
    "rope_theta": 50000.0,
}


def weights(seed: int, **shapes: tuple[int, ...]) -> dict[str, Tensor]:
    """Random bf16 tensors; `__` in a name is a dot."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name.replace("__", "."): torch.randn(shape, generator=generator).bfloat16()
        for name, shape in shapes.items()
    }


def layer(width: int, **more: tuple[int, ...]) -> dict[str, Tensor]:
    return weights(
        width,
        self_attn__q_proj__weight=(HEADS * HEAD_DIM, width),
        self_attn__k_proj__weight=(KV_HEADS * HEAD_DIM, width),
        self_attn__v_proj__weight=(KV_HEADS * HEAD_DIM, width),
        self_attn__o_proj__weight=(SIZE, HEADS * HEAD_DIM),
        mlp__gate_proj__weight=(INNER, SIZE),
        mlp__up_proj__weight=(INNER, SIZE),
        mlp__down_proj__weight=(SIZE, INNER),
        post_attention_layernorm__weight=(SIZE,),
        **more,
    )


def first_layer(prefix: str) -> dict[str, Tensor]:
    """Layer 0 of an EAGLE-3 head."""
    tensors = layer(2 * SIZE, input_layernorm__weight=(SIZE,), hidden_norm__weight=(SIZE,))
    return {prefix + name: tensor for name, tensor in tensors.items()}


def vocabulary() -> dict[str, Tensor]:
    t2d = torch.zeros(VOCAB, dtype=torch.bool)
    t2d[torch.tensor(TARGET_IDS)] = True
    return {"d2t": torch.tensor(D2T), "t2d": t2d}


def eagle3_rest(fused: int = 3 * SIZE) -> dict[str, Tensor]:
    return weights(
        3, fc__weight=(SIZE, fused), norm__weight=(SIZE,), lm_head__weight=(DRAFT_VOCAB, SIZE)
    )


def safeailab() -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
        **SIZES,
    }
    return config, {**first_layer("midlayer."), **eagle3_rest(), **vocabulary()}


def specforge() -> tuple[dict[str, Any], dict[str, Tensor]]:
    config, tensors = safeailab()
    config["architectures"] = ["LlamaForCausalLMEagle3"]
    config["rope_scaling"] = None
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": 50000.0}
    config["eagle_config"] = {
        "eagle_aux_hidden_state_layer_ids": [1, 4, 6],
        "use_aux_hidden_state": True,
    }
    return config, tensors


def speculators() -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": "org/tiny", "architectures": ["LlamaForCausalLM"]},
        },
        "transformer_layer_config": {"model_type": "llama", "num_hidden_layers": 1, **SIZES},
        "draft_vocab_size": DRAFT_VOCAB,
        "eagle_aux_hidden_state_layer_ids": [2, 5, 7],
    }
    return config, {**first_layer("layers.0."), **eagle3_rest(), **vocabulary()}


def eagle1() -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, **SIZES}
    tensors = {"layers.0." + name: tensor for name, tensor in layer(SIZE).items()}
    tensors |= weights(
        1, fc__weight=(SIZE, 2 * SIZE), fc__bias=(SIZE,), embed_tokens__weight=(VOCAB, SIZE)
    )
    return config, tensors


SAMPLES = {
    "safeailab": safeailab,
    "eagle1": eagle1,
    "speculators": speculators,
    "specforge": specforge,
}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """A folder with `config.json` and `model.safetensors`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


def target(folder: Path, is_tied: bool = True, **settings: Any) -> TargetFiles:
    """A target's folder: one safetensors file without an index."""
    tensors = weights(77, model__embed_tokens__weight=(VOCAB, SIZE), model__norm__weight=(SIZE,))
    if not is_tied:
        tensors |= weights(78, lm_head__weight=(VOCAB, SIZE))
    config = {
        "num_hidden_layers": LAYERS,
        "hidden_size": SIZE,
        "vocab_size": VOCAB,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": is_tied,
        **settings,
    }
    return TargetFiles(write(folder, config, tensors))
