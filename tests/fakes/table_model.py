"""A draft model without tensors: a table of guesses by prefix, whose KV rows are token ids.

A row that is read from a wrong slot, or was not replaced by a true one, gives a wrong prefix and so
a wrong guess, or an assertion here.
"""

from collections.abc import Sequence

from draft_service.drafters.draft_network import Guesses, NodeRows, TrueRows
from tests.fakes.table_network import GuessesOf, TableNetwork


class TableModel(TableNetwork[tuple[str, int]]):
    """A `ModelNetwork`.

    Args:
        guesses_of: Tokens and probabilities, best first, that follow on a prefix.
        slot_count: Rows of the pool.
        vocab_size: Ids that it can read.
        context_limit: Positions that it has.
    """

    def __init__(
        self,
        guesses_of: GuessesOf,
        slot_count: int = 4096,
        vocab_size: int = 1000,
        context_limit: int = 4096,
    ) -> None:
        super().__init__(guesses_of, slot_count, ("empty", -1))
        self.vocab_size, self.context_limit = vocab_size, context_limit

    def absorb(self, shares: Sequence[TrueRows]) -> list[Guesses | None]:
        """As `ModelNetwork.absorb`; a slot then holds the row and its token."""
        self._count([share.token_ids for share in shares])
        answers: list[Guesses | None] = []
        for share in shares:
            assert not share.features
            assert len(share.slots) == share.first_row + len(share.token_ids)
            for row, token in enumerate(share.token_ids, start=share.first_row):
                self._write(share.slots[row], f"true {row}", row, token)
            prefix = self._true_prefix(share.slots)
            answers.append(self._answer(prefix, share.ranking.width) if share.ranking else None)
        return answers

    def expand(self, shares: Sequence[NodeRows]) -> list[list[Guesses]]:
        """As `ModelNetwork.expand`."""
        self._count([share.token_ids for share in shares])
        answers = []
        for share in shares:
            true_slots = share.slots[: share.true_rows]
            node_slots = share.slots[share.true_rows :]
            first = len(node_slots) - len(share.token_ids)
            prefixes = []
            for place, (token, ancestors) in enumerate(
                zip(share.token_ids, share.ancestors, strict=True)
            ):
                above = [self.slots[node_slots[row]][1] for row in ancestors]
                assert len(above) == share.depth - 1
                position = share.true_rows - 1 + share.depth
                self._write(node_slots[first + place], "node", position, token)
                prefixes.append((*self._true_prefix(true_slots), *above, token))
            answers.append([self._answer(prefix, share.ranking.width) for prefix in prefixes])
        return answers

    def _write(self, slot: int, kind: str, position: int, token: int) -> None:
        assert token < self.vocab_size, "no such embedding"
        assert position < self.context_limit, "no such position"
        self.slots[slot] = (kind, token)

    def _answer(self, prefix: tuple[int, ...], width: int) -> Guesses:
        return self._guess(prefix, width, None)

    def _true_prefix(self, slots: range) -> tuple[int, ...]:
        rows = [self.slots[slot] for slot in slots]
        assert [kind for kind, _ in rows] == [f"true {row}" for row in range(len(rows))]
        return tuple(token for _, token in rows)
