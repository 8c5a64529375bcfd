"""A draft head without tensors: a table of guesses by prefix, whose KV rows are token ids.

A row that is read from a wrong slot, or was not replaced by a true one, gives a wrong prefix and so
a wrong guess, or an assertion here.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from draft_service.drafters.draft_network import Guesses, NodeRows, TrueRows
from outrider.protocol.features import FeatureLayout, TensorType
from outrider.protocol.messages import FeatureRows
from tests.fakes.table_network import GuessesOf, TableNetwork
from tests.fakes.table_target import HIDDEN_SIZE, table_features

LAYOUT = FeatureLayout((2,), HIDDEN_SIZE)


def features_of(
    session_id: bytes, token_ids: Sequence[int], start: int, stop: int, epoch: int = 0
) -> FeatureRows:
    """What a target would send for rows [start, stop)."""
    rows = [table_features(tuple(token_ids[: row + 1]), (2,)) for row in range(start, stop)]
    data = np.asarray(rows, dtype="<f4").tobytes()
    count, row_size = stop - start, LAYOUT.row_size
    return FeatureRows(session_id, epoch, start, count, row_size, TensorType.FLOAT32, data)


class TableHead(TableNetwork[tuple[str, int, int]]):
    """A `HeadNetwork`.

    Args:
        guesses_of: Tokens and probabilities, best first, that follow on a prefix.
        slot_count: Rows of the pool.
    """

    feature_size = LAYOUT.row_size

    def __init__(self, guesses_of: GuessesOf, slot_count: int = 4096) -> None:
        super().__init__(guesses_of, slot_count, ("empty", -1, -1))

    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """As `HeadNetwork.absorb`; a slot then holds the row and its two tokens."""
        self._count([share.token_ids for share in shares])
        answers: list[Guesses | None] = []
        for share in shares:
            features = _unpacked(share.features)
            assert len(features) == len(share.token_ids)
            assert len(share.slots) == share.first_row + len(features)
            for offset, ((token, position), behind) in enumerate(
                zip(features, share.token_ids, strict=True)
            ):
                row = share.first_row + offset
                assert position == row, "the feature of another row"
                self.slots[share.slots[row]] = (f"true {row}", token, behind)
            prefix = self._true_prefix(share.slots)
            answers.append(self._answer(prefix, share.ranking.width) if share.ranking else None)
        return answers

    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """As `HeadNetwork.expand`; a feedback is the prefix above the row."""
        self._count([share.token_ids for share in shares])
        answers = []
        for share in shares:
            true_slots = share.slots[: share.true_rows]
            node_slots = share.slots[share.true_rows :]
            first = len(node_slots) - len(share.token_ids)
            prefixes = []
            for place, (token, feedback, ancestors) in enumerate(
                zip(share.token_ids, share.feedbacks, share.ancestors, strict=True)
            ):
                above = [self.slots[node_slots[row]][2] for row in ancestors]
                prefix = self._true_prefix(true_slots) + tuple(above)
                assert feedback == prefix, "fed by another row"
                assert len(above) == share.depth - 1
                self.slots[node_slots[first + place]] = ("node", -1, token)
                prefixes.append((*prefix, token))
            answers.append([self._answer(prefix, share.ranking.width) for prefix in prefixes])
        return answers

    def _answer(self, prefix: tuple[int, ...], width: int) -> Guesses:
        return self._guess(prefix, width, prefix)

    def _true_prefix(self, slots: range) -> tuple[int, ...]:
        rows = [self.slots[slot] for slot in slots]
        assert [kind for kind, _, _ in rows] == [f"true {row}" for row in range(len(rows))]
        assert all(a[2] == b[1] for a, b in pairwise(rows)), "shifted by one"
        return (rows[0][1], *(behind for _, _, behind in rows))


def _unpacked(pieces: Sequence[FeatureRows]) -> list[tuple[int, int]]:
    """Token and position of each row."""
    rows = [np.frombuffer(piece.data, "<f4").reshape(-1, LAYOUT.row_size) for piece in pieces]
    return [(int(row[0]), int(row[1])) for row in np.concatenate(rows)]
