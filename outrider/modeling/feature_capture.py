"""Hidden states at layer boundaries of any `transformers` causal language model, by hooks.

Boundary i is the input of decoder layer i, the layer count the output of the last one, and
`FINAL_NORM` what the decoder hands on to the language-model head. Hooks are there only during a
pass that wants features, so other passes neither copy nor pay anything.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from outrider.modeling.heads.head_config import FINAL_NORM


class FeatureCapture:
    """Where the boundaries of one model are.

    Args:
        model: Its code stays as it is.

    Raises:
        ValueError: The decoder's layers are not where they are looked for.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        config = model.config.get_text_config()
        self._decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
        self._layers = _layers(self._decoder, int(config.num_hidden_layers))
        self._size = int(config.hidden_size)
        self._dtype = model.dtype
        self._device = next(model.get_input_embeddings().parameters()).device

    @contextmanager
    def capture(self, boundaries: Sequence[int], rows: Tensor) -> Iterator[Tensor]:
        """Fills a tensor during the pass that runs inside.

        Args:
            boundaries: In the order wanted.
            rows: Rows of the batch whose features are wanted, int64 `[num_rows]`.

        Yields:
            `[num_rows, len(boundaries) * hidden_size]`, complete once the pass has run.

        Raises:
            ValueError: No such boundary, or its hidden states are of another form.
        """
        _check(boundaries, len(self._layers))
        shape = len(rows), len(boundaries), self._size
        features = torch.empty(shape, dtype=self._dtype, device=self._device)
        rows = rows.to(self._device)
        with ExitStack() as hooks:
            for index, boundary in enumerate(boundaries):
                handle = self._hook(boundary, _Writer(features[:, index], rows))
                hooks.callback(handle.remove)
            yield features.flatten(1)

    def _hook(self, boundary: int, writer: "_Writer") -> RemovableHandle:
        if boundary == FINAL_NORM:
            return self._decoder.register_forward_hook(writer.take_output)
        if boundary == len(self._layers):
            return self._layers[-1].register_forward_hook(writer.take_output)
        layer = self._layers[boundary]
        return layer.register_forward_pre_hook(writer.take_input, with_kwargs=True)


def can_capture(model: PreTrainedModel) -> bool:
    """True where the decoder's layers are found."""
    try:
        FeatureCapture(model)
    except ValueError:
        return False
    return True


class _Writer:
    """Copies the wanted rows at once: a model may write over its hidden states afterwards."""

    def __init__(self, column: Tensor, rows: Tensor) -> None:
        self._column, self._rows = column, rows

    def take_input(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A forward pre-hook."""
        self._write(args[0] if args else kwargs["hidden_states"])

    def take_output(self, module: nn.Module, args: Any, output: Any) -> None:
        """A forward hook; the hidden states are the first output, or the only one."""
        self._write(output if isinstance(output, Tensor) else output[0])

    def _write(self, hidden: Tensor) -> None:
        if hidden.dim() != 3 or hidden.shape[2] != self._column.shape[1]:
            raise ValueError(
                f"hidden states of this model are {list(hidden.shape)}, "
                f"expected [1, rows, {self._column.shape[1]}]: no head can be fed from them"
            )
        self._column.copy_(hidden[0, self._rows.to(hidden.device)])


def _layers(decoder: nn.Module, layer_count: int) -> nn.ModuleList:
    """The decoder's layers: its only list of that many modules, whatever it is called."""
    found = [
        child
        for child in decoder.children()
        if isinstance(child, nn.ModuleList) and len(child) == layer_count
    ]
    if len(found) != 1:
        raise ValueError(
            f"{type(decoder).__name__} has {len(found)} lists of {layer_count} modules, expected "
            "one with its decoder layers: features for a head cannot be taken from this model"
        )
    return found[0]


def _check(boundaries: Sequence[int], layer_count: int) -> None:
    for boundary in boundaries:
        if boundary != FINAL_NORM and not 0 <= boundary <= layer_count:
            raise ValueError(
                f"feature layer {boundary} is not among 0 to {layer_count} (inputs of layers, and "
                f"the output of the last one) or {FINAL_NORM} (behind the final norm)"
            )
