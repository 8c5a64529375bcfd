"""The method `ngram`: a tree of what followed, earlier in the session, on the tokens it ends with.

Each earlier place is a guess; a longer match and further places that agree make it likelier. Where
places disagree the tree branches. How much such evidence is worth is learnt from the verdicts, so a
text that does not repeat itself soon gets no tree at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.drafters.acceptance_rates import AcceptanceRates
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.ngram_text import Continuation, NgramText
from draft_service.drafters.suffix_index import Occurrence
from draft_service.tree_builder import Child, GrownTree, grow_tree
from draft_service.tree_size import best_node_count
from outrider.protocol.decoding import Sampling
from outrider.protocol.messages import FeatureRows
from outrider.protocol.token_tree import TokenTree


@dataclass(frozen=True, slots=True)
class _State:
    """Places that agree on the path so far, and the guess that led here; None at the root."""

    places: Sequence[Occurrence]
    guess: Continuation | None = None


@dataclass(slots=True)
class _Session:
    text: NgramText
    last_tree: GrownTree[_State] | None = None


class NgramDrafter:
    """All sessions' texts, and the worker's shared experience."""

    def __init__(self) -> None:
        self._shared_rates = AcceptanceRates()
        self._sessions: dict[bytes, _Session] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int], sampling: Sampling) -> None:
        """As `Drafter.open`."""
        self._sessions[session_id] = _Session(NgramText(token_ids, self._shared_rates))

    def features_from(self, session_id: bytes) -> None:
        """As `Drafter.features_from`: none are wanted."""

    def take_features(self, rows: FeatureRows) -> None:
        """As `Drafter.take_features`; never asked for."""

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        return [
            _draft(self._sessions[session_id], budget)
            for session_id, budget in zip(session_ids, budgets, strict=True)
        ]

    def prepare(self) -> bool:
        """As `Drafter.prepare`: there is nothing to prepare."""
        return False

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        session = self._sessions[session_id]
        if session.last_tree is not None:
            _learn(session.text, session.last_tree, token_ids)
            session.last_tree = None
        session.text.extend(token_ids)

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        self._sessions.pop(session_id, None)


def _draft(session: _Session, budget: TreeBudget) -> TokenTree:
    text = session.text

    def children_of(state: _State) -> list[Child[_State]]:
        guesses = text.continuations(state.places, budget.parallel_degree)
        return [Child(one.token_id, one.prob, _State(one.places, one)) for one in guesses]

    root = _State(text.places())
    tree = grow_tree(text.last_token, root, children_of, budget.max_nodes, budget.max_depth)
    kept = 1 + best_node_count(tree.survival_probs[1:], budget.cost_table, budget.company)
    session.last_tree = tree
    return tree.first(kept)


def _learn(text: NgramText, tree: GrownTree[_State], token_ids: Sequence[int]) -> None:
    """Notes, at each node that the target reached, which of the guesses below it were right.

    Guesses beyond the tree's kept nodes count too, where the committed tokens answer them, so that
    a method that was switched off can find out when it would pay again.
    """
    guesses: dict[int, list[Continuation]] = {}
    nodes: dict[tuple[int, int], int] = {}
    for node, (parent, state) in enumerate(zip(tree.parents, tree.states, strict=True)):
        if state.guess is not None:
            guesses.setdefault(parent, []).append(state.guess)
            nodes[parent, state.guess.token_id] = node
    reached: int | None = 0
    for token_id in token_ids:
        if reached is None:
            return
        text.learn(guesses.get(reached, []), token_id)
        reached = nodes.get((reached, token_id))
