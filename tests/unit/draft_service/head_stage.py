"""Sessions over a table target and a head that is a table, for tests of drafting with a head."""

import random

from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.head import HeadDrafter
from draft_service.drafters.network_trees import NetworkOptions
from draft_service.drafters.network_watch import DropReason
from draft_service.row_extents import RowExtents
from draft_service.tree_shape import DynamicShape
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import CostTable
from outrider.protocol.token_tree import TokenTree
from tests.fakes.table_head import TableHead, features_of
from tests.fakes.table_network import GuessesOf

FREE = CostTable((1, 64), (100_000, 100_001))
DEAR = CostTable((1, 2), (1000, 2000))
VOCAB = 40
Drops = list[tuple[bytes, DropReason]]


def next_token(text: list[int] | tuple[int, ...]) -> int:
    """The target: any function of all tokens before."""
    return random.Random(str(tuple(text))).randrange(VOCAB)


def good_guesses(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
    """A head that mostly knows; its best guess is wrong where the tokens sum to a multiple of 4."""
    right = next_token(prefix)
    best = [right, (right + 1) % VOCAB, (right + 2) % VOCAB]
    if sum(prefix) % 4 == 0:
        best = best[1:] + best[:1]
    return list(zip(best, (0.6, 0.2, 0.1), strict=True))


def bad_guesses(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
    return [(VOCAB + 1, 0.6), (VOCAB + 2, 0.3)]


class Clock:
    """Moves on by `step` each time it is read, seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Stage:
    """Sessions over a table target, driven as the engine drives a drafter."""

    def __init__(
        self,
        guesses_of: GuessesOf = good_guesses,
        has_text: bool = False,
        slots: int = 4096,
        clock: Clock | None = None,
        may_rest: bool = True,
    ) -> None:
        self.network = TableHead(guesses_of, slots)
        self.extents = RowExtents(slots)
        self.drops: Drops = []
        self.drafter = HeadDrafter(
            self.network,
            self.extents,
            NetworkOptions(DynamicShape(), has_text, may_rest=may_rest),
            lambda session_id, reason, text: self.drops.append((session_id, reason)),
            clock or Clock(),
        )
        self.texts: dict[bytes, list[int]] = {}

    def open(self, name: str, length: int = 5) -> bytes:
        session_id = name.encode().ljust(16, b".")
        self.texts[session_id] = [random.Random(name).randrange(VOCAB) for _ in range(length)]
        self.drafter.open(session_id, self.texts[session_id], Sampling())
        return session_id

    def round(self, *session_ids: bytes, **options) -> list[TokenTree]:
        """Draft, verdict, features, commit."""
        trees = self.drafter.draft(session_ids, [budget(**options)] * len(session_ids))
        for session_id, tree in zip(session_ids, trees, strict=True):
            self.settle(session_id, tree)
        return trees

    def settle(self, session_id: bytes, tree: TokenTree, has_features: bool = True) -> int:
        """The verdict on a tree; the tokens that it committed."""
        text = self.texts[session_id]
        accepted: list[int] = []
        node, children, committed = 0, tree.children(), [next_token(text)]
        while (child := children[node].get(committed[-1])) is not None:
            accepted.append(child)
            node = child
            committed.append(next_token([*text, *committed]))
        text += committed
        first = self.drafter.features_from(session_id)
        if first is not None and has_features:
            self.drafter.take_features(features_of(session_id, text, first, len(text) - 1))
        self.drafter.commit(session_id, accepted, committed)
        return len(committed)


def budget(**options) -> TreeBudget:
    values = {"max_nodes": 12, "max_depth": 4, "parallel_degree": 3, "cost_table": FREE, **options}
    return TreeBudget(**values)
