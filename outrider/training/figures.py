"""What is told of a training step or of the held-out conversations. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, NamedTuple, Self, TypeVar

from outrider.training.schedule import expected_length

Row = TypeVar("Row")


class ChainSums(NamedTuple, Generic[Row]):
    """Sums over chains, one entry per step in each row.

    Args:
        losses: Cross-entropies of the counted guesses.
        counted: Guesses that entered the loss.
        hits: Guesses equal to the text's token.
        reached: Guesses that could have been.
        unbroken: Chains of which this guess and all before it were hits.
        chains: Chains, the same in each step.
    """

    losses: Row
    counted: Row
    hits: Row
    reached: Row
    unbroken: Row
    chains: Row


@dataclass(frozen=True, slots=True)
class Figures:
    """Means over chains.

    Args:
        losses: Cross-entropy by step.
        accuracies: Share of guesses by step that equal the text's token.
        expected_length: Tokens per round that the product of the accuracies promises a chain.
        chain_length: Tokens per round that a chain of this many guesses had on these texts.
    """

    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    expected_length: float
    chain_length: float

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_document(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `document`; what else is there is passed over."""
        return cls(
            tuple(values["losses"]),
            tuple(values["accuracies"]),
            values["expected_length"],
            values["chain_length"],
        )


def figures_of(sums: ChainSums[Sequence[float]]) -> Figures:
    """Divides sums by what they are sums over; nothing over nothing is 0."""
    accuracies = _divide(sums.hits, sums.reached)
    return Figures(
        losses=_divide(sums.losses, sums.counted),
        accuracies=accuracies,
        expected_length=expected_length(accuracies),
        chain_length=1.0 + sum(_divide(sums.unbroken, sums.chains)),
    )


def _divide(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, ...]:
    return tuple(part / whole if whole else 0.0 for part, whole in zip(parts, wholes, strict=True))
