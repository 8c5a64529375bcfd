"""Runs a target's passes on a CPU, each with the number of threads that pays off."""

from collections.abc import Callable

import torch
from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch
from verify_service.executor import LogitsModel
from verify_service.thread_choice import ThreadChoice


class TimedModel:
    """A model whose passes are timed; torch's thread count is its own to set.

    Args:
        model: On the CPU.
        choice: Learns from each pass.
        clock: Seconds, monotonic.
    """

    def __init__(
        self, model: LogitsModel, choice: ThreadChoice, clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._choice = choice
        self._clock = clock

    def forward(self, batch: RaggedBatch) -> Tensor:
        """As the model's own."""
        num_rows = len(batch.token_ids)
        threads = self._choice.threads_for(num_rows)
        torch.set_num_threads(threads)
        started = self._clock()
        logits = self._model.forward(batch)
        self._choice.note(num_rows, threads, self._clock() - started)
        return logits

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        """As the model's own."""
        self._model.move_rows(sources, destinations)
