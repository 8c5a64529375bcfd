"""How many nodes a tree should have: the size that commits the most tokens per unit of time."""

from collections.abc import Sequence

from outrider.protocol.messages import CostTable


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
    best_speed = expected / cost_table.micros_at(other_rows + 1)
    for count, survival in enumerate(survival_probs, start=1):
        expected += survival
        speed = expected / cost_table.micros_at(other_rows + 1 + count)
        if speed > best_speed:
            best_count, best_speed = count, speed
    return best_count
