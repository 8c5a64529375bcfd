"""A head on tensors: the `HeadNetwork` of the drafters, one pass at a time.

Knows rows and slots; whose they are and what is worth computing is decided in `drafters/`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from draft_service.drafters.draft_network import Guesses, NodeRows, TrueRows
from draft_service.tensors.draft_pass import DraftPass, node_rows_pass, true_rows_pass
from draft_service.tensors.guess_ranking import rank
from outrider.modeling.heads.draft_head import DraftHead, HeadOutput
from outrider.modeling.heads.pooled_attention import PooledAttention, draft_layers
from outrider.modeling.kv_pool import KvPool
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows

AHEAD = 2  # row p has the feature of position p and guesses the token at p + 2

_DTYPES = {
    TensorType.FLOAT32: torch.float32,
    TensorType.FLOAT16: torch.float16,
    TensorType.BFLOAT16: torch.bfloat16,
}


class TorchHead:
    """A head with its pool of draft KV rows.

    Args:
        head: Ready to run.
        slot_count: Rows of the pool, at least 1.
        dtype: Of its weights and rows.
        device: Where they live.
    """

    def __init__(
        self, head: DraftHead, slot_count: int, dtype: torch.dtype, device: str = "cpu"
    ) -> None:
        self._head, self._dtype, self._device = head, dtype, device
        self._pool = KvPool(draft_layers(head.config, dtype, device), slot_count)

    @property
    def slot_count(self) -> int:
        """As `HeadNetwork.slot_count`."""
        return self._pool.slot_count

    @property
    def feature_size(self) -> int:
        """As `HeadNetwork.feature_size`."""
        return self._head.config.feature_size

    @torch.inference_mode()
    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """As `HeadNetwork.absorb`."""
        pieces = [self._features(piece) for share in shares for piece in share.features]
        guesses = iter(self._run(true_rows_pass(shares), self._head.fuse(torch.cat(pieces))))
        return [None if share.ranking is None else next(guesses) for share in shares]

    @torch.inference_mode()
    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """As `HeadNetwork.expand`."""
        feedbacks = [tensor for share in shares for tensor in share.feedbacks]
        hidden = torch.stack(feedbacks)  # type: ignore[arg-type]  # tensors of our own
        guesses = iter(self._run(node_rows_pass(shares), hidden))
        return [[next(guesses) for _ in share.token_ids] for share in shares]

    @torch.inference_mode()
    def move(self, source: range, destination: range) -> None:
        """As `HeadNetwork.move`."""
        self._pool.move(list(source), list(destination))

    def _run(self, one: DraftPass, hidden: Tensor) -> list[Guesses]:
        """What follows on the rows that are asked."""
        output: HeadOutput = self._head(
            torch.tensor(one.token_ids, device=self._device),
            hidden,
            torch.tensor(one.positions, device=self._device),
            PooledAttention(self._pool, one.segments),
        )
        if not one.asked_rows:
            return []
        logits = self._head.logits(output.logit_input[one.asked_rows])
        ranked = rank(logits, self._head.target_ids, one.rankings, one.asked_positions(AHEAD))
        return [
            Guesses(row.token_ids, row.probs, output.feedback[place])
            for place, row in zip(one.asked_rows, ranked, strict=True)
        ]

    def _features(self, rows: FeatureRows) -> Tensor:
        """`[row_count, feature_size]`."""
        flat = torch.frombuffer(bytearray(rows.data), dtype=_DTYPES[rows.tensor_type])
        return flat.view(rows.row_count, rows.row_size).to(self._device, self._dtype)
