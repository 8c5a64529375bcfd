"""The files of a target, as far as a head needs them: sizes, embeddings, language-model head.

Reads `config.json` and safetensors by name; no model is built, no code of the target runs.
"""

from functools import cached_property
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from outrider.modeling.heads.checkpoints.config_file import ConfigFile, read_config_file
from outrider.modeling.heads.checkpoints.errors import BadCheckpoint
from outrider.modeling.heads.checkpoints.rope import resolve_rope
from outrider.modeling.heads.checkpoints.tensor_files import SafetensorsFolder

# How model families end the names of these two; the first that is there is meant.
_EMBEDDINGS: Final = ("embed_tokens.weight", "wte.weight", "embed_in.weight")
_OUTPUT_HEADS: Final = ("lm_head.weight", "embed_out.weight")
_OTHER_TOWERS: Final = ("vision", "visual", "audio", "image")


class TargetFiles:
    """A target's folder; tensors are read when they are asked for.

    Args:
        folder: Holds `config.json` and safetensors.

    Attributes:
        folder: The same.
        layer_count: Decoder layers.
        hidden_size: Width of its hidden states.
        vocab_size: Its vocabulary.
        context_limit: Positions it was made for; None where the file does not say.

    Raises:
        BadCheckpoint: `config.json` is not there or lacks a size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            whole = read_config_file(folder)
            # Models that also see or hear keep the language model's settings in a section.
            self._config = ConfigFile({**whole, **whole.section("text_config")})
            self.layer_count = self._config.integer("num_hidden_layers")
            self.hidden_size = self._config.integer("hidden_size")
            self.vocab_size = self._config.integer("vocab_size")
            self.context_limit: int | None = (
                self._config.integer("max_position_embeddings")
                if "max_position_embeddings" in self._config
                else None
            )
        except BadCheckpoint as error:
            raise self._named(error) from None

    @property
    def name(self) -> str:
        """What the target calls itself, never a path; else the name of its folder."""
        own = self._config.word("_name_or_path", "")
        return self.folder.resolve().name if not own or Path(own).is_absolute() else own

    @property
    def rope_parameters(self) -> dict[str, Any]:
        """Its rotary embedding in the words of transformers 5.

        Raises:
            BadCheckpoint: Layers differ in it, or its type is unknown.
        """
        return resolve_rope(self._config)

    def embed_tokens(self) -> Tensor:
        """Token embeddings, `[vocab_size, hidden_size]`.

        Raises:
            BadCheckpoint: They are not there, or have another shape.
        """
        return self._read(_EMBEDDINGS)

    def lm_head(self) -> Tensor:
        """Rows of its language-model head, `[vocab_size, hidden_size]`; tied ones are embeddings.

        Raises:
            BadCheckpoint: They are not there, or have another shape.
        """
        has_own = self._find(_OUTPUT_HEADS) is not None
        is_tied = self._config.flag("tie_word_embeddings", default=not has_own)
        return self._read(_EMBEDDINGS if is_tied else _OUTPUT_HEADS)

    @cached_property
    def _tensors(self) -> SafetensorsFolder:
        try:
            return SafetensorsFolder(self.folder)
        except BadCheckpoint as error:
            raise self._named(error) from None

    def _find(self, endings: tuple[str, ...]) -> str | None:
        names = [
            name
            for name in self._tensors.shapes
            if not any(tower in name for tower in _OTHER_TOWERS)
        ]
        for ending in endings:
            found = [name for name in names if name == ending or name.endswith("." + ending)]
            if found:
                return min(found, key=len)
        return None

    def _read(self, endings: tuple[str, ...]) -> Tensor:
        name = self._find(endings)
        if name is None:
            raise self._named(BadCheckpoint(f"there is no {endings[0]}"))
        shape, expected = self._tensors.shapes[name], (self.vocab_size, self.hidden_size)
        if shape != expected:
            raise self._named(BadCheckpoint(f"{name} is {list(shape)}, expected {list(expected)}"))
        return self._tensors.read(name)

    def _named(self, error: BadCheckpoint) -> BadCheckpoint:
        return BadCheckpoint(f"target {self.folder}: {error}")
