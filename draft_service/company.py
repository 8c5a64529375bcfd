"""Who shares the target's passes with one session's trees, as seen in the last of them.

A pass over trees of many sessions takes longer than one tree of as many rows would: each session
has a context of its own to attend to. Where a pass costs more anyway, a further row is worth more.
"""

from typing import NamedTuple

from outrider.protocol.messages import CostTable, Verdict

RIGHT_SHARE = 0.5  # of others' drafted nodes: they are sent as long as they are right so often
WEIGHT = 0.25  # of the newest pass in the running mean


class Company(NamedTuple):
    """What other sessions bring to a pass.

    Args:
        rows: Of their trees.
        tokens: That they may be expected to commit.
        extra_micros: That such a pass takes beyond what a lone tree of as many rows would.
        has_prefill: The last pass held prefill, whosesoever: its time says nothing of trees.
    """

    rows: int = 0
    tokens: float = 0.0
    extra_micros: float = 0.0
    has_prefill: bool = False


ALONE = Company()


def seen_in(verdict: Verdict, node_count: int, table: CostTable, before: Company) -> Company:
    """The company of a round.

    Args:
        verdict: The round's.
        node_count: Nodes of its own tree, the root included.
        table: Time of a pass over one tree by its rows.
        before: The company of the round before.
    """
    rows, sessions = verdict.batch_nodes - node_count, verdict.batch_trees - 1
    has_prefill = verdict.batch_rows > verdict.batch_nodes
    if rows <= 0:
        return ALONE._replace(has_prefill=has_prefill)
    tokens = sessions + RIGHT_SHARE * (rows - sessions)
    if has_prefill:
        return Company(rows, tokens, before.extra_micros, has_prefill)
    extra = max(0.0, verdict.verify_us - table.micros_at(verdict.batch_nodes))
    known = before.extra_micros if before.rows else extra
    return Company(rows, tokens, known + WEIGHT * (extra - known))
