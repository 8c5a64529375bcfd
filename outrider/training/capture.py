"""Runs the target over conversations and keeps what a head is trained on.

Plain prefill: several conversations in one ragged batch. The language-model head is multiplied out
for the draft vocabulary and the rows that are guessed only, a chunk at a time; where a model does
more with its logits than that product, its own forward pass is used for them instead.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from outrider.modeling.heads.head_config import FINAL_NORM
from outrider.modeling.ragged_batch import RaggedBatch, SegmentRows, build_ragged_batch
from outrider.modeling.target import TargetModel
from outrider.training.batches import pack
from outrider.training.captured import FEATURE_DTYPE, PROB_DTYPE, Captured, join

CHUNK_ROWS = 256
PROBE_ROWS = 8
SHORTCUT_TOLERANCE = 0.02  # of the logits' own spread; a soft cap or a scale changes far more


class TargetCapture:
    """A target that is read, with its pool allocated here.

    Args:
        target: Loaded.
        feature_layers: Boundaries, as in `HeadConfig`.
        target_ids: Target id of each draft token, int64 `[draft_vocab_size]`.
        lm_head: The target's language-model head, `[vocab_size, target_hidden_size]`.
        likely_count: Most likely tokens kept of each row, at least 1.
        pass_tokens: Most tokens of one forward pass; a longer conversation has one of its own.
        longest: Tokens of the longest conversation.
    """

    def __init__(
        self,
        target: TargetModel,
        feature_layers: Sequence[int],
        target_ids: Tensor,
        lm_head: Tensor,
        likely_count: int,
        pass_tokens: int,
        longest: int,
    ) -> None:
        self._target = target
        self._layers = [*feature_layers, *([] if FINAL_NORM in feature_layers else [FINAL_NORM])]
        self._feature_size = len(feature_layers) * target.facts.hidden_size
        self._final = self._layers.index(FINAL_NORM) * target.facts.hidden_size
        self._target_ids = target_ids
        self._lm_head_rows = lm_head[target_ids]
        self._likely_count = min(likely_count, len(target_ids))
        self._pass_tokens = pass_tokens
        self._is_plain: bool | None = None  # whether the product gives the model's own logits
        target.allocate(max(pass_tokens, longest))

    def __call__(
        self, token_ids: Sequence[Sequence[int]], first_counted: Sequence[int]
    ) -> Captured:
        """Captures conversations.

        Args:
            token_ids: Of each conversation.
            first_counted: In each, the first token that the loss counts, at least 1.

        Returns:
            Laid end to end, on the target's device.
        """
        packs = pack(range(len(token_ids)), [len(ids) for ids in token_ids], self._pass_tokens)
        return join(
            [
                self._run([token_ids[i] for i in one], [first_counted[i] for i in one])
                for one in packs
            ]
        )

    def _run(self, token_ids: Sequence[Sequence[int]], first_counted: Sequence[int]) -> Captured:
        """One forward pass."""
        if self._is_plain is None:
            self._is_plain = self._probe(token_ids[0][:PROBE_ROWS])
        batch, guessed = _lay_out(token_ids, first_counted, with_logits=not self._is_plain)
        output = self._target.forward_with_features(batch, self._layers)
        hidden = output.features[:, self._final : self._final + self._target.facts.hidden_size]
        shape = (len(hidden), self._likely_count)
        likely_ids = torch.zeros(shape, dtype=torch.int32, device=hidden.device)
        likely_probs = torch.zeros(shape, dtype=PROB_DTYPE, device=hidden.device)
        source = hidden[guessed] if self._is_plain else output.logits
        for rows, part in zip(
            torch.split(guessed, CHUNK_ROWS), torch.split(source, CHUNK_ROWS), strict=True
        ):
            logits = self._product(part) if self._is_plain else part[:, self._target_ids]
            probs, ids = logits.float().softmax(dim=-1).topk(self._likely_count, dim=-1)
            likely_ids[rows], likely_probs[rows] = ids.int(), probs.to(PROB_DTYPE)
        # A copy: tensors of inference mode cannot be trained on.
        features = output.features[:, : self._feature_size].to(FEATURE_DTYPE, copy=True)
        return Captured(features, likely_ids, likely_probs)

    def _probe(self, token_ids: Sequence[int]) -> bool:
        """True where the plain product equals the model's own logits."""
        batch, _ = _lay_out([token_ids], [1], with_logits=True)
        output = self._target.forward_with_features(batch, [FINAL_NORM])
        own = output.logits[:, self._target_ids].float()
        product = self._product(output.features[: len(own)]).float()
        spread = own.max() - own.min()
        return bool((own - product).abs().max() <= SHORTCUT_TOLERANCE * spread)

    def _product(self, hidden: Tensor) -> Tensor:
        """Logits over the draft vocabulary, `[num_rows, draft_vocab_size]`."""
        self._lm_head_rows = self._lm_head_rows.to(hidden.device, hidden.dtype)  # once
        return hidden @ self._lm_head_rows.T


def _lay_out(
    token_ids: Sequence[Sequence[int]], first_counted: Sequence[int], with_logits: bool
) -> tuple[RaggedBatch, Tensor]:
    """The batch, and its rows whose next token counts (or is not there), int64 `[num_guessed]`."""
    shares: list[SegmentRows] = []
    guessed: list[int] = []
    begin = 0
    for ids, first in zip(token_ids, first_counted, strict=True):
        count = len(ids)
        guessed += range(begin + first - 1, begin + count)
        slots = range(begin, begin + count)
        logits_from = first - 1 if with_logits else count
        shares.append(SegmentRows(ids, range(-1, count - 1), 0, slots, logits_from))
        begin += count
    return build_ragged_batch(shares), torch.tensor(guessed)
