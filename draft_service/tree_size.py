"""How many nodes a tree should have: the size that commits the most tokens per unit of time."""

from collections.abc import Sequence

from outrider.protocol.messages import CostTable

# The table is measured at one length of context and in quiet moments. A row that turns out dearer
# costs more than one left out, so each further row is reckoned at this much of its measured time.
CAUTION = 1.3


def best_node_count(
    survival_probs: Sequence[float], cost_table: CostTable, other_rows: int = 0
) -> int:
    """Chooses how many drafted nodes to keep.

    Args:
        survival_probs: Probability that each drafted node is accepted, falling, `[num_drafted]`.
        cost_table: Time of a forward pass by its rows.
        other_rows: Rows that other sessions bring to the same pass. Each counts as one committed
            token: an overestimate, so that a loaded worker is given smaller trees.

    Returns:
        Drafted nodes to keep, 0 (plain decoding) to `num_drafted`. Of equal sizes the smaller.
    """
    best_count, expected = 0, 1.0 + other_rows
    plain_micros = cost_table.micros_at(other_rows + 1)
    best_speed = expected / plain_micros
    for count, survival in enumerate(survival_probs, start=1):
        expected += survival
        added_micros = cost_table.micros_at(other_rows + 1 + count) - plain_micros
        speed = expected / (plain_micros + CAUTION * added_micros)
        if speed > best_speed:
            best_count, best_speed = count, speed
    return best_count
