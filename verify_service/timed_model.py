"""Runs a target's passes on a CPU, each with the number of threads that pays off."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch
from verify_service.executor import TorchModel
from verify_service.thread_choice import ThreadChoice


class TimedModel:
    """A model whose passes are timed; torch's thread count is its own to set.

    Args:
        model: On the CPU.
        choice: Learns from each pass.
        clock: Seconds, monotonic.
    """

    def __init__(self, model: TorchModel, choice: ThreadChoice, clock: Callable[[], float]) -> None:
        self._model = model
        self._choice = choice
        self._clock = clock

    def forward(self, batch: RaggedBatch) -> Tensor:
        """As the model's own."""
        with self._timed(len(batch.token_ids)):
            return self._model.forward(batch)

    def forward_with_features(
        self, batch: RaggedBatch, feature_layers: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """As the model's own."""
        with self._timed(len(batch.token_ids)):
            return self._model.forward_with_features(batch, feature_layers)

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        """As the model's own."""
        self._model.move_rows(sources, destinations)

    @contextmanager
    def _timed(self, num_rows: int) -> Iterator[None]:
        threads = self._choice.threads_for(num_rows)
        torch.set_num_threads(threads)
        started = self._clock()
        yield
        self._choice.note(num_rows, threads, self._clock() - started)
