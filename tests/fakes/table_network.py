"""What a draft head and a draft model without tensors have in common: slots, passes, failures."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from draft_service.drafters.draft_network import Guesses

Slot = TypeVar("Slot")

GuessesOf = Callable[[tuple[int, ...]], list[tuple[int, float]]]


class TableNetwork(Generic[Slot]):
    """A pool whose slots say what they hold.

    Args:
        guesses_of: Tokens and probabilities, best first, that follow on a prefix.
        slot_count: Rows of the pool.
        empty: What a slot holds at first.

    Attributes:
        passes: Rows of each pass, in order.
        broken: Raised by the next passes, if any.
    """

    def __init__(self, guesses_of: GuessesOf, slot_count: int, empty: Slot) -> None:
        self._guesses_of = guesses_of
        self.slot_count = slot_count
        self.slots = [empty] * slot_count
        self.passes: list[int] = []
        self.broken: Exception | None = None

    def move(self, source: range, destination: range) -> None:
        """As `DraftNetwork.move`."""
        if self.broken is not None:
            raise self.broken
        taken = [self.slots[slot] for slot in source]
        for slot, row in zip(destination, taken, strict=True):
            self.slots[slot] = row

    def _count(self, token_ids: Sequence[Sequence[int]]) -> None:
        if self.broken is not None:
            raise self.broken
        self.passes.append(sum(map(len, token_ids)))

    def _guess(self, prefix: tuple[int, ...], width: int, feedback: object) -> Guesses:
        best = self._guesses_of(prefix)[:width]
        return Guesses([token for token, _ in best], [prob for _, prob in best], feedback)
