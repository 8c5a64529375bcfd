"""A draft method without any sense: whatever it proposes, the text must be the same."""

import random
from collections.abc import Sequence

from draft_service.drafters.drafter import TreeBudget
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree


class RandomDrafter:
    """Draws any legal tree at all, some of its nodes right by chance."""

    def __init__(self, seed: int, vocab_size: int = 8) -> None:
        self._random = random.Random(seed)
        self._vocab_size = vocab_size
        self._roots: dict[bytes, int] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        self._roots[session_id] = token_ids[-1]

    def features_from(self, session_id: bytes) -> int | None:
        return None

    def take_features(self, rows: FeatureRows) -> None:
        raise AssertionError("nobody asked for features")

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        return [
            self._tree(self._roots[one], budget)
            for one, budget in zip(session_ids, budgets, strict=True)
        ]

    def prepare(self) -> bool:
        return False

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        self._roots[session_id] = token_ids[-1]

    def close(self, session_id: bytes) -> None:
        self._roots.pop(session_id, None)

    def _tree(self, root: int, budget: TreeBudget) -> TokenTree:
        token_ids, parents, depths = [root], [-1], [0]
        for _ in range(self._random.randrange(budget.max_nodes)):
            parent = self._random.randrange(len(token_ids))
            token = self._random.randrange(self._vocab_size)
            taken = {t for t, p in zip(token_ids, parents, strict=True) if p == parent}
            if token not in taken and depths[parent] < budget.max_depth:
                token_ids.append(token)
                parents.append(parent)
                depths.append(depths[parent] + 1)
        return TokenTree(tuple(token_ids), tuple(parents))
