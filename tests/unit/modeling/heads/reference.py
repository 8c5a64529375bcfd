"""Both families of heads once more in plain tensor code, written from the papers.

Nothing here is shared with the networks under test: rotation is complex multiplication, attention
is one matrix per head, norms and activations are spelled out.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from outrider.modeling.heads.head_config import HeadConfig, HeadKind

Weights = Mapping[str, Tensor]


def fuse(config: HeadConfig, weights: Weights, features: Tensor) -> Tensor:
    """Features `[num_rows, feature_size]` as hidden states `[num_rows, H]`."""
    if config.kind is HeadKind.EAGLE1:
        return features
    if config.fc_norm:
        width = config.target_hidden_size
        parts = [
            _norm(config, features[:, i * width : (i + 1) * width], weights[f"fc_norm.{i}.weight"])
            for i in range(len(config.feature_layers))
        ]
        features = torch.cat(parts, dim=1)
    if config.norm_before_fc:
        features = _norm(config, features, weights["input_norm.weight"])
    return _linear(weights, "fc", features)


def step(
    config: HeadConfig, weights: Weights, token_ids: list[int], hidden: Tensor, first: int
) -> tuple[Tensor, Tensor]:
    """One causal pass over a sequence whose rows have positions `first`, `first + 1`, ...

    Args:
        config: Of default rope type.
        weights: By normal-form name.
        token_ids: `[num_rows]`.
        hidden: `[num_rows, H]`.
        first: Position of the first row.

    Returns:
        Logits `[num_rows, Vd]` and what the next step is fed, `[num_rows, H]`.
    """
    is_eagle1 = config.kind is HeadKind.EAGLE1
    embedded = weights["embed_tokens.weight"][token_ids]
    rows = _linear(weights, "fc", torch.cat([embedded, hidden], dim=1)) if is_eagle1 else hidden
    for layer in range(config.num_layers):
        name = f"layers.{layer}"
        inputs = rows
        if layer > 0:
            inputs = _norm(config, rows, weights[f"{name}.input_layernorm.weight"])
        elif not is_eagle1:
            normed = _norm(config, rows, weights[f"{name}.hidden_norm.weight"])
            first_half = _norm(config, embedded, weights[f"{name}.input_layernorm.weight"])
            inputs = torch.cat([first_half, normed], dim=1)
            rows = normed if config.norm_before_residual else rows
        rows = rows + _attention(config, weights, f"{name}.self_attn", inputs, first)
        normed = _norm(config, rows, weights[f"{name}.post_attention_layernorm.weight"])
        rows = rows + _mlp(weights, f"{name}.mlp", normed)
    if is_eagle1:
        return rows @ weights["lm_head.weight"].T, rows
    normed = _norm(config, rows, weights["norm.weight"])
    return normed @ weights["lm_head.weight"].T, normed if config.norm_output else rows


def _attention(
    config: HeadConfig, weights: Weights, name: str, inputs: Tensor, first: int
) -> Tensor:
    queries = _linear(weights, f"{name}.q_proj", inputs).split(config.head_dim, dim=1)
    keys = _linear(weights, f"{name}.k_proj", inputs).split(config.head_dim, dim=1)
    values = _linear(weights, f"{name}.v_proj", inputs).split(config.head_dim, dim=1)
    if config.qk_norm:
        queries = [_norm(config, one, weights[f"{name}.q_norm.weight"]) for one in queries]
        keys = [_norm(config, one, weights[f"{name}.k_norm.weight"]) for one in keys]
    queries = [_turn(config, one, first) for one in queries]
    keys = [_turn(config, one, first) for one in keys]
    sharing = config.num_heads // config.num_kv_heads
    mixed = []
    for head, query in enumerate(queries):
        scores = query @ keys[head // sharing].T / config.head_dim**0.5
        shares = torch.tril(scores.exp())
        mixed.append(shares / shares.sum(dim=1, keepdim=True) @ values[head // sharing])
    return _linear(weights, f"{name}.o_proj", torch.cat(mixed, dim=1))


def _turn(config: HeadConfig, rows: Tensor, first: int) -> Tensor:
    """Rotates the pairs (i, i + dim / 2) by position * theta ** (-2 i / dim)."""
    half = config.head_dim // 2
    theta = float(config.rope_parameters["rope_theta"])
    angles = torch.tensor(
        [[(first + row) * theta ** (-i / half) for i in range(half)] for row in range(len(rows))]
    )
    pairs = torch.complex(rows[:, :half].contiguous(), rows[:, half:].contiguous())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=1)


def _mlp(weights: Weights, name: str, rows: Tensor) -> Tensor:
    gate = _linear(weights, f"{name}.gate_proj", rows)
    up = _linear(weights, f"{name}.up_proj", rows)
    return _linear(weights, f"{name}.down_proj", gate / (1 + torch.exp(-gate)) * up)


def _norm(config: HeadConfig, rows: Tensor, weight: Tensor) -> Tensor:
    return weight * rows / torch.sqrt((rows * rows).mean(dim=1, keepdim=True) + config.rms_norm_eps)


def _linear(weights: Weights, name: str, rows: Tensor) -> Tensor:
    result = rows @ weights[f"{name}.weight"].T
    bias = weights.get(f"{name}.bias")
    return result if bias is None else result + bias
