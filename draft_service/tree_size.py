"""How many nodes a tree should have: the size that commits the most tokens per unit of time."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from draft_service.company import ALONE, Company
from outrider.protocol.messages import CostTable


class TreeSize(NamedTuple):
    """A choice of size.

    Args:
        node_count: Drafted nodes to keep.
        speed: Expected tokens per microsecond with them.
    """

    node_count: int
    speed: float


def best_node_count(
    survival_probs: Sequence[float], cost_table: CostTable, company: Company = ALONE
) -> int:
    """Chooses how many drafted nodes to keep; arguments and result are those of `best_size`."""
    return best_size(survival_probs, cost_table, company).node_count


def best_size(
    survival_probs: Sequence[float],
    cost_table: CostTable,
    company: Company = ALONE,
    draft_micros: float = 0.0,
) -> TreeSize:
    """Chooses how many drafted nodes to keep.

    Args:
        survival_probs: Probability that each drafted node is accepted, falling, `[num_drafted]`.
        cost_table: Time of a forward pass by its rows.
        company: What other sessions bring to the same pass.
        draft_micros: Time that drafting has taken already, whatever the size.

    Returns:
        Drafted nodes to keep, 0 (plain decoding) to `num_drafted`. Of equal sizes the smaller.
    """
    micros = _micros(cost_table, company.rows + 1, len(survival_probs) + 1)
    expected = 1.0 + company.tokens
    best = TreeSize(0, expected / (draft_micros + micros[0]))
    for count, survival in enumerate(survival_probs, start=1):
        expected += survival
        speed = expected / (draft_micros + micros[count])
        if speed > best.speed:
            best = TreeSize(count, speed)
    return best


@lru_cache(maxsize=4096)
def _micros(cost_table: CostTable, first_rows: int, count: int) -> tuple[float, ...]:
    """Times of `first_rows` rows and more; asked for again and again while a tree grows."""
    return tuple(cost_table.micros_at(first_rows + extra) for extra in range(count))
