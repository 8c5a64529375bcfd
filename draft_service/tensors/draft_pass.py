"""One pass of a draft network as flat lists: rows of many sessions, end to end.

What a head and a draft model have in common between the drafters' plain values and their tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch

from draft_service.drafters.draft_network import NodeRows, Ranking, TrueRows
from outrider.modeling.draft_segments import DraftSegment


@dataclass(frozen=True, slots=True)
class DraftPass:
    """A pass.

    Args:
        token_ids: `[num_rows]`.
        positions: `[num_rows]`.
        segments: One per share.
        asked_rows: Rows whose guesses are wanted, rising.
        rankings: How to rank them, `[num_asked]`.
    """

    token_ids: list[int]
    positions: list[int]
    segments: list[DraftSegment]
    asked_rows: list[int]
    rankings: list[Ranking]

    def asked_positions(self, ahead: int) -> list[int]:
        """Positions of the tokens that are guessed, `ahead` of their rows', `[num_asked]`."""
        return [self.positions[row] + ahead for row in self.asked_rows]


def true_rows_pass(shares: Sequence[TrueRows]) -> DraftPass:
    """The pass over some sessions' true rows; the last row of a share may be asked."""
    segments: list[DraftSegment] = []
    positions: list[int] = []
    asked_rows: list[int] = []
    for share in shares:
        new = range(share.first_row, share.first_row + len(share.token_ids))
        segments.append(DraftSegment(len(new), share.slots, tail_positions=torch.tensor(new)))
        positions += new
        if share.ranking is not None:
            asked_rows.append(len(positions) - 1)
    return DraftPass(
        token_ids=list(chain.from_iterable(share.token_ids for share in shares)),
        positions=positions,
        segments=segments,
        asked_rows=asked_rows,
        rankings=[share.ranking for share in shares if share.ranking is not None],
    )


def node_rows_pass(shares: Sequence[NodeRows]) -> DraftPass:
    """The pass over one level of some sessions' trees; all rows are asked."""
    positions: list[int] = []
    for share in shares:
        positions += [_position(share, share.depth)] * len(share.token_ids)
    return DraftPass(
        token_ids=list(chain.from_iterable(share.token_ids for share in shares)),
        positions=positions,
        segments=[_node_segment(share) for share in shares],
        asked_rows=list(range(len(positions))),
        rankings=[share.ranking for share in shares for _ in share.token_ids],
    )


def _position(share: NodeRows, depth: int) -> int:
    """Position of the rows of one depth; the root's row is the last true one."""
    return share.true_rows - 1 + depth


def _node_segment(share: NodeRows) -> DraftSegment:
    """Each new row sees the node rows above it, and itself."""
    num_rows, num_nodes = len(share.token_ids), len(share.slots) - share.true_rows
    visible = torch.zeros(num_rows, num_nodes, dtype=torch.bool)
    visible[:, num_nodes - num_rows :] = torch.eye(num_rows, dtype=torch.bool)
    # Node rows that none of the new ones sees need no position of their own.
    positions = torch.full((num_nodes,), _position(share, share.depth))
    for row, above in enumerate(share.ancestors):
        visible[row, list(above)] = True
        for depth, node in enumerate(above, start=1):
            positions[node] = _position(share, depth)
    return DraftSegment(num_rows, share.slots, visible, positions)
