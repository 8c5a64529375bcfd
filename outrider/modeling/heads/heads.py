"""From a head's configuration and tensors to a head that runs or trains.

Where tensors come from is not known here: a missing `lm_head` or `embed_tokens` that the target
lends is put among them before.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from outrider.modeling.heads.draft_head import DraftHead
from outrider.modeling.heads.fused_head import FusedHead
from outrider.modeling.heads.head_config import HeadConfig, HeadKind
from outrider.modeling.heads.rotary_embedding import RotaryEmbedding
from outrider.modeling.heads.single_feature_head import SingleFeatureHead

TARGET_IDS = "target_ids"
NAMED_AT_MOST = 5  # problems that an error names

_EAGLE3_ONLY = ("fc_norm", "norm_before_fc", "norm_before_residual", "norm_output")


def build_head(
    config: HeadConfig, tensors: Mapping[str, Tensor], dtype: torch.dtype, device: str
) -> DraftHead:
    """Makes a head, in evaluation mode, with trainable parameters.

    Args:
        config: What it is.
        tensors: By normal-form name, all that `expected_shapes` lists; `target_ids` (absolute
            target ids, int64 `[draft_vocab_size]`) besides, needed where the vocabulary is reduced.
            Tensors that have the dtype and device asked for are shared, not copied.
        dtype: Of all weights.
        device: Where they go.

    Raises:
        ValueError: The configuration contradicts itself, or a tensor is missing, unknown, of the
            wrong shape or type; the message names it and what was expected.
    """
    _check_config(config)
    head = _on_meta(config, TARGET_IDS in tensors)
    _check_tensors(config, _shapes(head), tensors)
    placed = {
        name: tensor.to(device) if name == TARGET_IDS else tensor.to(device, dtype)
        for name, tensor in tensors.items()
    }
    head.load_state_dict(placed, assign=True)
    return head.eval()


def expected_shapes(config: HeadConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights of a head by normal-form name, `target_ids` not among them."""
    return _shapes(_on_meta(config, has_target_ids=False))


def _shapes(head: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in head.named_parameters()}


def _on_meta(config: HeadConfig, has_target_ids: bool) -> FusedHead | SingleFeatureHead:
    """The network without storage: its weights come as they are, so none are drawn first."""
    rotary = RotaryEmbedding(config.rope_parameters, config.head_dim)
    with torch.device("meta"):
        if config.kind is HeadKind.EAGLE1:
            return SingleFeatureHead(config, rotary, has_target_ids)
        return FusedHead(config, rotary, has_target_ids)


def _check_config(config: HeadConfig) -> None:
    problems = []
    if config.num_heads % config.num_kv_heads:
        problems.append(
            f"{config.num_heads} heads do not share {config.num_kv_heads} key-value heads"
        )
    if config.hidden_act not in ACT2FN:
        problems.append(f"activation {config.hidden_act!r} is unknown")
    if config.fc_norm and config.norm_before_fc:
        problems.append("fc_norm and norm_before_fc exclude one another")
    if config.kind is HeadKind.EAGLE1:
        if config.feature_size != config.hidden_size:
            problems.append(
                f"an eagle1 head of width {config.hidden_size} takes one feature of that width, "
                f"not {len(config.feature_layers)} of {config.target_hidden_size}"
            )
        problems += [
            f"{option} is not for eagle1" for option in _EAGLE3_ONLY if getattr(config, option)
        ]
    if problems:
        raise ValueError("; ".join(problems))


def _check_tensors(
    config: HeadConfig, expected: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor]
) -> None:
    problems = [
        f"tensor {name} {list(shape)} is missing"
        for name, shape in expected.items()
        if name not in tensors
    ]
    for name, tensor in tensors.items():
        if name == TARGET_IDS:
            problems += _target_id_problems(config, tensor)
        elif name not in expected:
            problems.append(f"tensor {name} {list(tensor.shape)} is unknown")
        elif tuple(tensor.shape) != expected[name]:
            problems.append(
                f"tensor {name} is {list(tensor.shape)}, expected {list(expected[name])}"
            )
        elif not tensor.is_floating_point():
            problems.append(f"tensor {name} is {tensor.dtype}, expected a floating-point type")
    if config.draft_vocab_size != config.vocab_size and TARGET_IDS not in tensors:
        problems.append(f"tensor {TARGET_IDS} [{config.draft_vocab_size}] is missing")
    if problems:
        more = len(problems) - NAMED_AT_MOST
        named = problems[:NAMED_AT_MOST] + ([f"and {more} more"] if more > 0 else [])
        raise ValueError(f"not the tensors of this {config.kind} head: {'; '.join(named)}")


def _target_id_problems(config: HeadConfig, target_ids: Tensor) -> list[str]:
    size = config.draft_vocab_size
    if target_ids.dtype is not torch.int64 or tuple(target_ids.shape) != (size,):
        shape = list(target_ids.shape)
        return [f"tensor {TARGET_IDS} is {target_ids.dtype} {shape}, expected int64 [{size}]"]
    if target_ids.min() < 0 or target_ids.max() >= config.vocab_size:
        return [
            f"tensor {TARGET_IDS} has ids from {int(target_ids.min())} to {int(target_ids.max())}, "
            f"expected 0 to {config.vocab_size - 1}"
        ]
    if len(set(target_ids.tolist())) != size:
        return [f"tensor {TARGET_IDS} names a target token twice, expected distinct ids"]
    return []
