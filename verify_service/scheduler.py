"""Which rows go into the next step: pending trees first, then prefill, under a token budget.

Nobody waits for anybody: a step takes what is there. Knows counts only.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """What one session could run now.

    Args:
        prefill_rows: Committed tokens before the root whose keys and values are missing.
        tree_rows: Nodes of the pending tree; 0 where none is pending.
    """

    prefill_rows: int
    tree_rows: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one session gets of a step.

    Args:
        index: Place of its demand.
        prefill_rows: Rows of prefill, from 0.
        with_tree: True: the pending tree runs too, behind the last row of prefill.
    """

    index: int
    prefill_rows: int
    with_tree: bool


def plan_shares(demands: Sequence[Demand], token_budget: int) -> list[Share]:
    """Fills one step.

    Args:
        demands: Of all sessions, the longest-waiting first.
        token_budget: Most rows of the step, at least 1. The first tree is taken even where it is
            larger, so that a step always moves something.

    Returns:
        Shares without a repeated index: trees in the given order, then prefill.
    """
    shares: list[Share] = []
    left = token_budget
    for index, demand in enumerate(demands):
        if (
            demand.tree_rows
            and not demand.prefill_rows
            and (demand.tree_rows <= left or not shares)
        ):
            shares.append(Share(index, 0, with_tree=True))
            left -= demand.tree_rows
    for index, demand in enumerate(demands):
        if left <= 0:
            break
        if demand.prefill_rows:
            rows = min(demand.prefill_rows, left)
            is_last = rows == demand.prefill_rows
            with_tree = is_last and 0 < demand.tree_rows <= left - rows
            shares.append(Share(index, rows, with_tree))
            left -= rows + (demand.tree_rows if with_tree else 0)
    return shares
