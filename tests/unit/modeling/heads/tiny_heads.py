"""Tiny random heads of both families."""

from typing import Any

import torch
from torch import Tensor

from outrider.modeling.heads.draft_head import DraftHead
from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind
from outrider.modeling.heads.heads import build_head

VOCAB, DRAFT_VOCAB = 41, 23
SIZE, TARGET_SIZE, INNER = 20, 12, 28
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8


def eagle3_config(**options: Any) -> HeadConfig:
    return HeadConfig(
        **{
            "kind": HeadKind.EAGLE3,
            "target_hidden_size": TARGET_SIZE,
            "feature_layers": (1, 2, 4),
            "draft_vocab_size": DRAFT_VOCAB,
            **_common(),
            **options,
        }
    )


def eagle1_config(**options: Any) -> HeadConfig:
    return HeadConfig(
        **{
            "kind": HeadKind.EAGLE1,
            "target_hidden_size": SIZE,
            "feature_layers": (FINAL_NORM,),
            "draft_vocab_size": VOCAB,
            "fc_bias": True,
            **_common(),
            **options,
        }
    )


def random_tensors(config: HeadConfig, seed: int = 0) -> dict[str, Tensor]:
    """Weights of a head by normal-form name, wide enough to disagree."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        name: 1 + 0.3 * torch.randn(shape, generator=generator)
        if "norm" in name
        else torch.randn(shape, generator=generator) * shape[-1] ** -0.5
        for name, shape in _shapes(config).items()
    }
    if config.draft_vocab_size != config.vocab_size:
        order = torch.randperm(config.vocab_size, generator=generator)
        tensors["target_ids"] = order[: config.draft_vocab_size].sort().values
    return tensors


def tiny_head(config: HeadConfig, seed: int = 0) -> DraftHead:
    return build_head(config, random_tensors(config, seed), torch.float32, "cpu")


def random_rows(config: HeadConfig, num_rows: int, seed: int = 0) -> tuple[list[int], Tensor]:
    """Token ids and features of some rows."""
    generator = torch.Generator().manual_seed(1000 + seed)
    token_ids: list[int] = torch.randint(VOCAB, (num_rows,), generator=generator).tolist()
    return token_ids, torch.randn(num_rows, config.feature_size, generator=generator)


def _common() -> dict[str, Any]:
    return {
        "hidden_size": SIZE,
        "intermediate_size": INNER,
        "num_layers": 1,
        "num_heads": HEADS,
        "num_kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0},
    }


def _shapes(config: HeadConfig) -> dict[str, tuple[int, ...]]:
    """As the formats publish them; not asked of the networks under test."""
    is_eagle3 = config.kind is HeadKind.EAGLE3
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (VOCAB, SIZE),
        "fc.weight": (SIZE, config.feature_size if is_eagle3 else 2 * SIZE),
        "lm_head.weight": (config.draft_vocab_size, SIZE),
    }
    if config.fc_bias:
        shapes["fc.bias"] = (SIZE,)
    if is_eagle3:
        shapes["norm.weight"] = (SIZE,)
    if config.fc_norm:
        shapes |= {f"fc_norm.{i}.weight": (TARGET_SIZE,) for i in range(3)}
    if config.norm_before_fc:
        shapes["input_norm.weight"] = (config.feature_size,)
    for layer in range(config.num_layers):
        shapes |= _layer_shapes(config, layer, is_eagle3)
    return shapes


def _layer_shapes(config: HeadConfig, layer: int, is_eagle3: bool) -> dict[str, tuple[int, ...]]:
    name = f"layers.{layer}"
    width = 2 * SIZE if is_eagle3 and layer == 0 else SIZE
    outs = {"q": HEADS * HEAD_DIM, "k": KV_HEADS * HEAD_DIM, "v": KV_HEADS * HEAD_DIM}
    shapes: dict[str, tuple[int, ...]] = {
        f"{name}.post_attention_layernorm.weight": (SIZE,),
        f"{name}.self_attn.o_proj.weight": (SIZE, HEADS * HEAD_DIM),
        f"{name}.mlp.gate_proj.weight": (INNER, SIZE),
        f"{name}.mlp.up_proj.weight": (INNER, SIZE),
        f"{name}.mlp.down_proj.weight": (SIZE, INNER),
    }
    for letter, out in outs.items():
        shapes[f"{name}.self_attn.{letter}_proj.weight"] = (out, width)
        if config.attention_bias:
            shapes[f"{name}.self_attn.{letter}_proj.bias"] = (out,)
    if config.qk_norm:
        shapes |= {f"{name}.self_attn.{letter}_norm.weight": (HEAD_DIM,) for letter in "qk"}
    if is_eagle3 or layer > 0:
        shapes[f"{name}.input_layernorm.weight"] = (SIZE,)
    if is_eagle3 and layer == 0:
        shapes[f"{name}.hidden_norm.weight"] = (SIZE,)
    return shapes
