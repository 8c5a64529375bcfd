"""The method `ngram`: a tree of what followed, earlier in the session, on the tokens it ends with.

Each earlier place is a guess; a longer match and further places that agree make it likelier. Where
places disagree the tree branches. How much such evidence is worth is learnt from the verdicts, so a
text that does not repeat itself soon gets no tree at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.drafters.acceptance_rates import AcceptanceRates, Evidence
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.suffix_index import Occurrence, SuffixIndex
from draft_service.tree_builder import Child, GrownTree, grow_tree
from draft_service.tree_size import best_node_count
from outrider.protocol.token_tree import TokenTree

MAX_OCCURRENCES = 16
FEW, MANY = 2, 4  # agreeing places from which a guess has some support, and much


@dataclass(frozen=True, slots=True)
class _State:
    """Occurrences that agree on the path so far; `evidence` is the node's own, None at the root."""

    occurrences: tuple[Occurrence, ...]
    evidence: Evidence | None = None


@dataclass(slots=True)
class _Session:
    index: SuffixIndex
    rates: AcceptanceRates
    last_tree: GrownTree[_State] | None = None


class NgramDrafter:
    """All sessions' texts, and the worker's shared experience."""

    def __init__(self) -> None:
        self._shared_rates = AcceptanceRates()
        self._sessions: dict[bytes, _Session] = {}

    def open(self, session_id: bytes, token_ids: Sequence[int]) -> None:
        """As `Drafter.open`."""
        rates = AcceptanceRates(self._shared_rates)
        self._sessions[session_id] = _Session(SuffixIndex(token_ids), rates)

    def draft(self, session_ids: Sequence[bytes], budgets: Sequence[TreeBudget]) -> list[TokenTree]:
        """As `Drafter.draft`."""
        return [
            _draft(self._sessions[session_id], budget)
            for session_id, budget in zip(session_ids, budgets, strict=True)
        ]

    def commit(
        self, session_id: bytes, accepted_indices: Sequence[int], token_ids: Sequence[int]
    ) -> None:
        """As `Drafter.commit`."""
        session = self._sessions[session_id]
        if session.last_tree is not None:
            _learn(session.rates, session.last_tree, token_ids)
            session.last_tree = None
        session.index.extend(token_ids)

    def close(self, session_id: bytes) -> None:
        """As `Drafter.close`."""
        self._sessions.pop(session_id, None)


def _draft(session: _Session, budget: TreeBudget) -> TokenTree:
    text, rates = session.index.token_ids, session.rates

    def children_of(state: _State) -> list[Child[_State]]:
        groups: dict[int, list[Occurrence]] = {}
        for occurrence in state.occurrences:  # the longest match first
            if occurrence.next_index < len(text):
                groups.setdefault(text[occurrence.next_index], []).append(occurrence)
        guesses = [(rates.rate(_evidence(places)), places) for places in groups.values()]
        guesses.sort(key=lambda guess: -guess[0])  # stable: of equal ones the longest match first
        children: list[Child[_State]] = []
        prob_left = 1.0  # that none of the better siblings is right
        for rate, places in guesses[: budget.parallel_degree]:
            below = _State(tuple(one.followed() for one in places), _evidence(places))
            children.append(Child(text[places[0].next_index], prob_left * rate, below))
            prob_left *= 1.0 - rate
        return children

    root = _State(tuple(session.index.occurrences(MAX_OCCURRENCES)))
    tree = grow_tree(text[-1], root, children_of, budget.max_nodes, budget.max_depth)
    kept = 1 + best_node_count(tree.survival_probs[1:], budget.cost_table, budget.other_rows)
    session.last_tree = tree
    return tree.first(kept)


def _evidence(agreeing: Sequence[Occurrence]) -> Evidence:
    """What speaks for a guess on which some places agree, the longest match first."""
    support = (len(agreeing) >= FEW) + (len(agreeing) >= MANY)
    return Evidence(agreeing[0].match_length, support)


def _learn(rates: AcceptanceRates, tree: GrownTree[_State], token_ids: Sequence[int]) -> None:
    """Notes, at each node that the target reached, which of the guesses below it were right.

    Guesses beyond the tree's kept nodes count too, where the committed tokens answer them, so that
    a method that was switched off can find out when it would pay again.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    node = 0
    for token_id in token_ids:
        right = None
        for child in children.get(node, []):
            is_right = tree.token_ids[child] == token_id
            evidence = tree.states[child].evidence
            assert evidence is not None, "only the root has none, and it is nobody's child"
            rates.note(evidence, is_right)
            if is_right:
                right = child
                break
        if right is None:
            return
        node = right
