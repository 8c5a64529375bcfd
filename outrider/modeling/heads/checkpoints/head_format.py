"""What the four formats have in common: how a format is described, and sizes that all spell alike.

Knows no format by name; each has a file of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from outrider.modeling.heads.checkpoints.config_file import ConfigFile
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.rope import resolve_rope, rope_version_4
from outrider.modeling.heads.checkpoints.tensor_files import Shapes
from outrider.modeling.heads.head_config import HeadConfig

_NORMAL_FIRST_LAYER = "layers.0."


@dataclass(frozen=True, slots=True)
class HeadNotes:
    """What a file says besides the head itself; nothing here changes what is drafted.

    Args:
        verifier: Name of the target it was made for; empty where the file does not say.
        context_limit: `max_position_embeddings`, for other software; None where unknown.
        dtype: Name of the torch dtype of the weights.
    """

    verifier: str = ""
    context_limit: int | None = None
    dtype: str = "bfloat16"


@dataclass(frozen=True, slots=True)
class HeadFormat:
    """One published format.

    Args:
        name: As users type it.
        first_layer: What it calls `layers.0.`, with the dot.
        head_config: Reads a head's configuration; takes the file's, the shapes of the tensors and
            the target's layer count, None where no target is at hand. Raises BadCheckpoint.
        document: Writes it: the values of a `config.json`. Raises BadCheckpoint where the format
            has no way to say something.
    """

    name: str
    first_layer: str
    head_config: Callable[[ConfigFile, Shapes, int | None], HeadConfig]
    document: Callable[[HeadConfig, HeadNotes], dict[str, Any]]

    def normal_name(self, name: str) -> str:
        """Normal form of a tensor's name in a file."""
        return _with_prefix(name, self.first_layer, _NORMAL_FIRST_LAYER)

    def file_name(self, name: str) -> str:
        """Name in a file of a tensor in normal form."""
        return _with_prefix(name, _NORMAL_FIRST_LAYER, self.first_layer)


def decoder_settings(config: ConfigFile) -> dict[str, Any]:
    """The fields of `HeadConfig` that describe decoder layers; every format spells them alike.

    Raises:
        BadCheckpoint: One is missing, of another type, or asks for what no head here can do.
    """
    num_heads = config.integer("num_attention_heads")
    hidden_size = config.integer("hidden_size")
    if "sliding_attention" in config.words("layer_types"):
        raise BadCheckpoint("layer_types: heads with sliding-window attention are not supported")
    return {
        "hidden_size": hidden_size,
        "intermediate_size": config.integer("intermediate_size"),
        "num_heads": num_heads,
        "num_kv_heads": config.integer("num_key_value_heads", num_heads),
        "head_dim": config.integer("head_dim", max(1, hidden_size // num_heads)),
        "vocab_size": config.integer("vocab_size"),
        "rms_norm_eps": config.number("rms_norm_eps", 1e-6),
        "hidden_act": config.word("hidden_act", "silu"),
        "rope_parameters": resolve_rope(config),
        # Qwen 2 heads of SafeAILab say it in a word of their own.
        "attention_bias": config.flag("qkv_bias", config.flag("attention_bias")),
    }


def decoder_document(config: HeadConfig, notes: HeadNotes) -> dict[str, Any]:
    """The inverse of `decoder_settings`, with what other software expects to find besides."""
    document = {
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "hidden_act": config.hidden_act,
        "attention_bias": config.attention_bias,
        "tie_word_embeddings": False,
        "torch_dtype": notes.dtype,
        **rope_version_4(config.rope_parameters),
    }
    if notes.context_limit is not None:
        document["max_position_embeddings"] = notes.context_limit
    return document


def draft_vocab_size(config: ConfigFile, shapes: Shapes) -> int:
    """Vocabulary of an EAGLE-3 head: as stated, else by its `d2t`, else the target's."""
    implied = shapes["d2t"][0] if shapes.get("d2t") else config.integer("vocab_size")
    return config.integer("draft_vocab_size", implied)


def refuse_options(config: Mapping[str, Any], names: tuple[str, ...], format_name: str) -> None:
    """Refuses switches that a format does not know.

    Raises:
        BadCheckpoint: One of `names` is on.
    """
    for name in names:
        if config.get(name):
            raise BadCheckpoint(
                f"{name} is on, which the {format_name} format does not know; the speculators "
                "format says it without doubt"
            )


def _with_prefix(name: str, old: str, new: str) -> str:
    return new + name.removeprefix(old) if name.startswith(old) else name
