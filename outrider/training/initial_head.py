"""The head that training begins with: made of the target's own weights, as far as they fit.

The decoder layer is the target's last one, its projections over [embedding; hidden] that layer's
own for the hidden half; `fc` hands on the highest feature; norm and language-model head are the
target's. So the first guesses are already tokens of the right kind, which counts where data is
scarce. What does not fit is drawn at random and named.

An EAGLE-1 head is different: its layer has no norm in front, reads features behind the target's
final norm, and its output is a feature again. There the norm is folded into the projections, and
what the layer adds begins at nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from outrider.modeling.heads.checkpoints import BadCheckpoint, TargetFiles
from outrider.modeling.heads.checkpoints.config_file import ConfigFile, read_config_file
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder
from outrider.modeling.heads.head_config import FINAL_NORM, HeadConfig, HeadKind
from outrider.modeling.heads.heads import TARGET_IDS, expected_shapes

RANDOM_STD = 0.02
_LAYER = "layers.{}."
_READING = tuple(f"self_attn.{one}_proj.weight" for one in "qkv")
_ADDING = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
_EMBEDDING_ENDING = "embed_tokens.weight"


@dataclass(frozen=True, slots=True)
class InitialHead:
    """Where training starts.

    Args:
        config: What the head is.
        tensors: All of them, in normal form, float32.
        drawn: Names of those that were drawn at random.
    """

    config: HeadConfig
    tensors: dict[str, Tensor]
    drawn: tuple[str, ...]


class TargetWeights:
    """A target's weights by the names that Llama and its kin share.

    Args:
        files: The target's folder.
    """

    def __init__(self, files: TargetFiles) -> None:
        self._source = SafetensorsFolder(files.folder)
        self._is_gemma = "gemma" in self.config(files.folder).word("model_type", "")
        names = [n for n in self._source.shapes if n.endswith(_EMBEDDING_ENDING)]
        self._prefix = min(names, key=len).removesuffix(_EMBEDDING_ENDING) if names else ""

    @staticmethod
    def config(folder: Path) -> ConfigFile:
        """The language model's settings."""
        whole = read_config_file(folder)
        return ConfigFile({**whole, **whole.section("text_config")})

    def find(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor | None:
        """A tensor of the decoder, float32; None where it is not there or of another shape."""
        own = self._source.shapes.get(self._prefix + name)
        if own is None or (shape is not None and own != shape):
            return None
        tensor = self._source.read(self._prefix + name).float()
        # Gemma's norms multiply by 1 + weight, everybody else's by weight.
        return tensor + 1.0 if self._is_gemma and name.endswith("norm.weight") else tensor


def head_config(
    files: TargetFiles,
    kind: HeadKind,
    feature_layers: Sequence[int],
    draft_vocab_size: int,
    num_layers: int = 1,
) -> HeadConfig:
    """A head as wide as its target, with the shape of the target's own layers.

    Raises:
        BadCheckpoint: The target's `config.json` lacks a size, or mixes rotary embeddings.
    """
    config, weights = TargetWeights.config(files.folder), TargetWeights(files)
    num_heads = config.integer("num_attention_heads")
    activation = config.word("hidden_act", config.word("hidden_activation", "silu"))
    first_layer = _LAYER.format(0) + "self_attn."
    return HeadConfig(
        kind=kind,
        hidden_size=files.hidden_size,
        target_hidden_size=files.hidden_size,
        intermediate_size=config.integer("intermediate_size", 3 * files.hidden_size),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=config.integer("num_key_value_heads", num_heads),
        head_dim=config.integer("head_dim", max(1, files.hidden_size // num_heads)),
        vocab_size=files.vocab_size,
        draft_vocab_size=draft_vocab_size,
        feature_layers=(FINAL_NORM,) if kind is HeadKind.EAGLE1 else tuple(feature_layers),
        rms_norm_eps=config.number("rms_norm_eps", 1e-6),
        hidden_act=activation,
        rope_parameters=files.rope_parameters,
        fc_bias=kind is HeadKind.EAGLE1,
        attention_bias=weights.find(first_layer + "q_proj.bias") is not None,
    )


def initial_head(
    config: HeadConfig,
    files: TargetFiles,
    target_ids: Tensor,
    from_target: bool,
    seed: int,
) -> InitialHead:
    """The tensors to begin with.

    Args:
        config: Of `head_config`.
        files: The target's folder.
        target_ids: Target id of each draft token, int64 `[draft_vocab_size]`.
        from_target: False: only embeddings and language-model head are the target's.
        seed: Of what is drawn.

    Raises:
        BadCheckpoint: The target's embeddings or language-model head are not there.
    """
    lm_head = files.lm_head()
    tensors = {
        "embed_tokens.weight": files.embed_tokens().float(),
        "lm_head.weight": lm_head[target_ids].float(),
    }
    weights = TargetWeights(files) if from_target else None
    generator = torch.Generator().manual_seed(seed)
    drawn: list[str] = []
    for name, shape in expected_shapes(config).items():
        if name in tensors:
            continue
        found = None if weights is None else _from_target(name, shape, config, files, weights)
        if found is None:
            found = _neutral(name, shape, generator)
            if len(shape) > 1:
                drawn.append(name)
        tensors[name] = found.contiguous()
    if config.draft_vocab_size != config.vocab_size:
        tensors[TARGET_IDS] = target_ids
    return InitialHead(config, tensors, tuple(drawn))


def default_feature_layers(layer_count: int) -> tuple[int, ...]:
    """Low, middle and high, as published EAGLE-3 heads have them.

    Raises:
        BadCheckpoint: The target has fewer than seven layers, and they would not rise.
    """
    layers = (2, layer_count // 2, layer_count - 3)
    if not layers[0] < layers[1] < layers[2]:
        layers = (1, (layer_count + 1) // 2, layer_count)
    if not layers[0] < layers[1] < layers[2]:
        raise BadCheckpoint(
            f"a target of {layer_count} layers has no low, middle and high one; name the "
            "boundaries with --feature-layers"
        )
    return layers


def _from_target(
    name: str,
    shape: tuple[int, ...],
    config: HeadConfig,
    files: TargetFiles,
    weights: TargetWeights,
) -> Tensor | None:
    if name == "fc.weight":
        return _pass_on_the_last(shape)
    if name == "norm.weight":
        return weights.find(name, shape)
    if not name.startswith("layers."):
        return None
    _, index, part = name.split(".", 2)
    layer = _LAYER.format(files.layer_count - config.num_layers + int(index))
    if config.kind is HeadKind.EAGLE3 and index == "0":
        if part == "input_layernorm.weight":  # over plain embeddings, as in the target's first
            return weights.find(_LAYER.format(0) + part, shape)
        if part == "hidden_norm.weight":
            return weights.find(layer + "input_layernorm.weight", shape)
        if part in _READING:  # [embedding; hidden]
            hidden_half = weights.find(layer + part, (shape[0], shape[1] // 2))
            if hidden_half is None:
                return None
            return torch.cat([torch.zeros_like(hidden_half), hidden_half], dim=1)
    found = weights.find(layer + part, shape)
    if found is None or config.kind is not HeadKind.EAGLE1 or index != "0":
        return found
    if part in _ADDING:
        return torch.zeros_like(found)
    return found * _folded_norm(layer, weights) if part in _READING else found


def _folded_norm(layer: str, weights: TargetWeights) -> Tensor | float:
    """What the layer's input norm does to a feature of usual length, `[target_hidden_size]`."""
    final, own = weights.find("norm.weight"), weights.find(layer + "input_layernorm.weight")
    if final is None or own is None:
        return 1.0
    return own / final.square().mean().sqrt()


def _pass_on_the_last(shape: tuple[int, ...]) -> Tensor | None:
    """A matrix that hands on the last of the inputs laid side by side."""
    size, inputs = shape
    if inputs % size:
        return None
    return torch.cat([torch.zeros(size, inputs - size), torch.eye(size)], dim=1)


def _neutral(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    if len(shape) == 1:
        return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
    return torch.randn(shape, generator=generator) * RANDOM_STD
