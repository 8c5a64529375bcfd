"""A draft method that wants features, keeps them all, and notices what is missing or too much."""

from collections.abc import Sequence

import numpy as np

from outrider.protocol.decoding import Sampling
from outrider.protocol.features import FeatureLayout, TensorType
from outrider.protocol.messages import FeatureRows
from tests.fakes.random_drafter import RandomDrafter
from tests.fakes.table_target import HIDDEN_SIZE, table_features

LAYOUT = FeatureLayout((1, 3, 5), HIDDEN_SIZE)


class FeatureDrafter(RandomDrafter):
    """Random trees; what it knows of a session stays after `close`.

    Args:
        seed: Of the trees.
        vocab_size: Of the trees.
        first_row: First row of each session whose features it wants.

    Attributes:
        token_ids: Text of each session.
        taken: Features of each session's rows, from `first_row` on.
        lacking: Lengths of each session's text at which features of a committed row were missing.
    """

    def __init__(self, seed: int, vocab_size: int = 8, first_row: int = 0) -> None:
        super().__init__(seed, vocab_size)
        self.first_row = first_row
        self.token_ids: dict[bytes, list[int]] = {}
        self.taken: dict[bytes, list[list[float]]] = {}
        self.lacking: dict[bytes, list[int]] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        super().open(session_id, token_ids, sampling)
        self.token_ids[session_id] = list(token_ids)
        self.taken[session_id] = []
        self.lacking[session_id] = []

    def features_from(self, session_id: bytes) -> int:
        return self.first_row + len(self.taken[session_id])

    def take_features(self, rows: FeatureRows) -> None:
        assert rows.first_row == self.features_from(rows.session_id), "a gap or a repetition"
        assert (rows.row_size, rows.tensor_type) == (LAYOUT.row_size, TensorType.FLOAT32)
        values = np.frombuffer(rows.data, "<f4").reshape(rows.row_count, rows.row_size)
        self.taken[rows.session_id] += values.tolist()

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        super().commit(session_id, accepted_indices, token_ids)
        text = self.token_ids[session_id]
        text += token_ids
        row_count = self.first_row + len(self.taken[session_id])
        assert row_count <= max(self.first_row, len(text) - 1), "features of an unknown token"
        if row_count < len(text) - 1:
            self.lacking[session_id].append(len(text))

    def check_values(self, session_id: bytes) -> None:
        """Each row's features are those of its token, in its place, behind its own prefix."""
        text = self.token_ids[session_id]
        for place, values in enumerate(self.taken[session_id]):
            prefix = tuple(text[: self.first_row + place + 1])
            assert values == table_features(prefix, LAYOUT.feature_layers)
