"""Who shares the target's passes with one session's trees, as seen in the last of them."""

from typing import NamedTuple

from outrider.protocol.messages import Verdict

RIGHT_SHARE = 0.5  # of others' drafted nodes: measured, 37% to 56% of those that were sent


class Company(NamedTuple):
    """What other sessions bring to a pass.

    Args:
        rows: Of their trees.
        tokens: That they may be expected to commit.
        has_prefill: The last pass held prefill, whosesoever: its time says nothing of trees.
    """

    rows: int = 0
    tokens: float = 0.0
    has_prefill: bool = False


ALONE = Company()


def seen_in(verdict: Verdict, node_count: int) -> Company:
    """The company of a round.

    Args:
        verdict: The round's.
        node_count: Nodes of its own tree, the root included.
    """
    rows, sessions = max(0, verdict.batch_nodes - node_count), max(0, verdict.batch_trees - 1)
    drafted = max(0, rows - sessions)
    has_prefill = verdict.batch_rows > verdict.batch_nodes
    return Company(rows, sessions + RIGHT_SHARE * drafted, has_prefill)
