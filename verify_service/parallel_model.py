"""A target in parts: the first rank's passes are announced to the others, which run them too.

Tokens are decided on the first rank alone. The others need no logits, only the same rows: what they
hold, their heads' rows of the KV pool, follows from the passes and moves that they are told of.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from outrider.modeling.ragged_batch import RaggedBatch, build_ragged_batch
from verify_service.executor import TorchModel
from verify_service.ranks import Ranks
from verify_service.step import TargetLost
from verify_service.step_frames import End, Moves, Order, Pass, decode, encode


class LeadingModel:
    """The first rank's part of a target, with the others in step.

    Args:
        model: This rank's part.
        ranks: This process is the first of them.
    """

    def __init__(self, model: TorchModel, ranks: Ranks) -> None:
        self._model = model
        self._ranks = ranks

    def forward(self, batch: RaggedBatch) -> Tensor:
        """As the model's own.

        Raises:
            TargetLost: It failed here or elsewhere; ranks may be in different steps now.
        """
        with self._together(Pass(list(batch.shares))):
            return self._model.forward(batch)

    def forward_with_features(
        self, batch: RaggedBatch, feature_layers: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """As the model's own; every rank has whole hidden states, so the others are not asked.

        Raises:
            TargetLost: As for `forward`.
        """
        with self._together(Pass(list(batch.shares))):
            return self._model.forward_with_features(batch, feature_layers)

    def move_rows(self, sources: list[int], destinations: list[int]) -> None:
        """As the model's own.

        Raises:
            TargetLost: As for `forward`.
        """
        if sources:
            with self._together(Moves(sources, destinations)):
                self._model.move_rows(sources, destinations)

    @contextmanager
    def _together(self, order: Order) -> Iterator[None]:
        frame = encode(order)  # what fails before this is sent fails for one session only
        self._ranks.send(frame)
        with _words_for_a_failed_pass(self._ranks):
            yield


def dismiss(ranks: Ranks) -> None:
    """Lets the other ranks end, where there are others; nothing may be run afterwards.

    Raises:
        TargetLost: One of them is gone already.
    """
    if ranks.count > 1:
        ranks.send(encode(End()))


def follow(model: TorchModel, ranks: Ranks) -> None:
    """Runs what the first rank says until it says the end.

    Args:
        model: This rank's part, with a pool as large as everywhere.
        ranks: This process is not the first of them.

    Raises:
        TargetLost: Another rank is gone, or this one cannot go on.
    """
    while True:
        order = decode(ranks.receive())
        with _words_for_a_failed_pass(ranks):
            match order:
                case Pass(shares):
                    model.forward(build_ragged_batch(shares))
                case Moves(sources, destinations):
                    model.move_rows(sources, destinations)
                case End():
                    return


@contextmanager
def _words_for_a_failed_pass(ranks: Ranks) -> Iterator[None]:
    """Ranks may be in different steps after any failure: there is no way back."""
    try:
        yield
    except Exception as error:
        raise TargetLost(
            f"a pass failed on rank {ranks.rank} of {ranks.count} ({type(error).__name__}: {error})"
        ) from error
