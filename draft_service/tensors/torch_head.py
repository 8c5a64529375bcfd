"""A head on tensors: the `HeadNetwork` of the drafters, one pass at a time.

Knows rows and slots; whose they are and what is worth computing is decided in `drafters/`.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from draft_service.drafters.draft_network import Guesses, NodeRows, Ranking, TrueRows
from draft_service.tensors.guess_ranking import rank
from outrider.modeling.heads.draft_head import DraftHead, HeadOutput
from outrider.modeling.heads.pooled_attention import DraftSegment, PooledAttention, draft_layers
from outrider.modeling.kv_pool import KvPool
from outrider.protocol.features import TensorType
from outrider.protocol.messages import FeatureRows

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
        counts = [len(share.token_ids) for share in shares]
        output = self._pass(
            token_ids=list(chain.from_iterable(share.token_ids for share in shares)),
            hidden=self._head.fuse(torch.cat(pieces)),
            positions=list(
                chain.from_iterable(
                    range(share.first_row, share.first_row + count)
                    for share, count in zip(shares, counts, strict=True)
                )
            ),
            segments=[
                DraftSegment(count, share.slots)
                for share, count in zip(shares, counts, strict=True)
            ],
        )
        stops = torch.tensor(counts).cumsum(dim=0).tolist()
        wanted = [place for place, share in enumerate(shares) if share.ranking is not None]
        rankings = [share.ranking for share in shares if share.ranking is not None]
        positions = [shares[place].first_row + counts[place] - 1 for place in wanted]
        found = self._guesses(output, [stops[place] - 1 for place in wanted], rankings, positions)
        answers = dict(zip(wanted, found, strict=True))
        return [answers.get(place) for place in range(len(shares))]

    @torch.inference_mode()
    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """As `HeadNetwork.expand`."""
        counts = [len(share.token_ids) for share in shares]
        positions = [
            share.true_rows - 1 + share.depth
            for share, count in zip(shares, counts, strict=True)
            for _ in range(count)
        ]
        feedbacks = [tensor for share in shares for tensor in share.feedbacks]
        output = self._pass(
            token_ids=list(chain.from_iterable(share.token_ids for share in shares)),
            hidden=torch.stack(feedbacks),  # type: ignore[arg-type]  # tensors of our own
            positions=positions,
            segments=[
                DraftSegment(count, share.slots, _visible(share))
                for share, count in zip(shares, counts, strict=True)
            ],
        )
        rankings = [
            share.ranking for share, count in zip(shares, counts, strict=True) for _ in range(count)
        ]
        found = iter(self._guesses(output, range(len(positions)), rankings, positions))
        return [[next(found) for _ in range(count)] for count in counts]

    @torch.inference_mode()
    def move(self, source: range, destination: range) -> None:
        """As `HeadNetwork.move`."""
        self._pool.move(list(source), list(destination))

    def _pass(
        self,
        token_ids: list[int],
        hidden: Tensor,
        positions: list[int],
        segments: list[DraftSegment],
    ) -> HeadOutput:
        return self._head(
            torch.tensor(token_ids, device=self._device),
            hidden,
            torch.tensor(positions, device=self._device),
            PooledAttention(self._pool, segments),
        )

    def _guesses(
        self,
        output: HeadOutput,
        rows: Sequence[int],
        rankings: Sequence[Ranking],
        positions: Sequence[int],
    ) -> list[Guesses]:
        """What follows on some rows of a pass; `positions` are those of the rows' features."""
        if not rows:
            return []
        logits = self._head.logits(output.logit_input[list(rows)])
        guessed = [position + 2 for position in positions]
        ranked = rank(logits, self._head.target_ids, rankings, guessed)
        return [
            Guesses(one.token_ids, one.probs, output.feedback[row])
            for row, one in zip(rows, ranked, strict=True)
        ]

    def _features(self, rows: FeatureRows) -> Tensor:
        """`[row_count, feature_size]`."""
        flat = torch.frombuffer(bytearray(rows.data), dtype=_DTYPES[rows.tensor_type])
        return flat.view(rows.row_count, rows.row_size).to(self._device, self._dtype)


def _visible(share: NodeRows) -> Tensor:
    """Which node rows each new one sees: those above it, and itself; bool `[num_rows, nodes]`."""
    num_rows, num_nodes = len(share.token_ids), len(share.slots) - share.true_rows
    visible = torch.zeros(num_rows, num_nodes, dtype=torch.bool)
    visible[:, num_nodes - num_rows :] = torch.eye(num_rows, dtype=torch.bool)
    for row, above in enumerate(share.ancestors):
        visible[row, list(above)] = True
    return visible
