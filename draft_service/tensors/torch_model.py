"""A causal language model as the `ModelNetwork` of the drafters, one pass at a time.

The engine is the target's own: ragged batches over a KV pool, for whatever `transformers` loads.
"""

from collections.abc import Sequence

import torch

from draft_service.drafters.draft_network import Guesses, NodeRows, TrueRows
from draft_service.tensors.draft_pass import DraftPass, node_rows_pass, true_rows_pass
from draft_service.tensors.guess_ranking import rank
from outrider.modeling.draft_segments import lay_end_to_end
from outrider.modeling.ragged_batch import RaggedBatch
from outrider.modeling.target import TargetModel

AHEAD = 1  # row p is the token at p and guesses the token at p + 1


class TorchDraftModel:
    """A draft model with its pool of draft KV rows.

    Args:
        model: Without a pool yet.
        slot_count: Rows of the pool, at least 1.
        id_end: Token ids that may be guessed are below this number.
    """

    def __init__(self, model: TargetModel, slot_count: int, id_end: int) -> None:
        model.allocate(slot_count)
        self._model, self._slot_count, self._id_end = model, slot_count, id_end

    @property
    def slot_count(self) -> int:
        """As `ModelNetwork.slot_count`."""
        return self._slot_count

    @property
    def vocab_size(self) -> int:
        """As `ModelNetwork.vocab_size`."""
        return self._model.facts.vocab_size

    @property
    def context_limit(self) -> int:
        """As `ModelNetwork.context_limit`."""
        return self._model.facts.context_limit

    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """As `ModelNetwork.absorb`."""
        guesses = iter(self._run(true_rows_pass(shares)))
        return [None if share.ranking is None else next(guesses) for share in shares]

    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """As `ModelNetwork.expand`."""
        guesses = iter(self._run(node_rows_pass(shares)))
        return [[next(guesses) for _ in share.token_ids] for share in shares]

    def move(self, source: range, destination: range) -> None:
        """As `ModelNetwork.move`."""
        self._model.move_rows(list(source), list(destination))

    @torch.inference_mode()
    def _run(self, one: DraftPass) -> list[Guesses]:
        """What follows on the rows that are asked."""
        laid = lay_end_to_end(one.segments)
        batch = RaggedBatch(
            token_ids=torch.tensor(one.token_ids),
            position_ids=torch.tensor(one.positions),
            write_slots=laid.write_slots,
            groups=laid.groups,
            logit_rows=torch.tensor(one.asked_rows, dtype=torch.int64),
        )
        logits = self._model.forward(batch)[:, : self._id_end]
        if not one.asked_rows:
            return []
        ranked = rank(logits, None, one.rankings, one.asked_positions(AHEAD))
        return [Guesses(row.token_ids, row.probs, None) for row in ranked]
