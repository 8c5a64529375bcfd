"""How one session's tree grows in one round: from a draft network, the session's text, or both.

Level by level: `plan_level`, the network's pass over `rows_of`, `add_level`; then `finish`. Levels
that the network does not see are grown from the text alone and cost nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from draft_service.candidate_tree import CandidateTree
from draft_service.drafters.calibration import Calibration
from draft_service.drafters.draft_network import Guesses, NodeRows, Ranking
from draft_service.drafters.drafter import TreeBudget
from draft_service.drafters.merging import Proposal, Voice, merge
from draft_service.drafters.ngram_text import Continuation, NgramText
from draft_service.drafters.suffix_index import Occurrence
from draft_service.tree_shape import LevelTimes, TreeShape
from outrider.protocol.token_tree import ROOT, TokenTree

MIN_SURVIVAL = 0.01  # less likely nodes are not continued from the text
MAX_MASS = 0.99  # of all children of a node together


@dataclass(frozen=True, slots=True)
class Sources:
    """What a session's trees grow from.

    Args:
        drawing: How the network's guesses are ranked; each way is calibrated for itself.
        calibration: Of the network's guesses.
        text: The session's own text, or None.
        shape: Which nodes are expanded and sent.
    """

    drawing: str
    calibration: Calibration
    text: NgramText | None
    shape: TreeShape

    def prob(self, proposal: Proposal, depth: int) -> float:
        """Calibrated probability of a proposal, given its parent."""
        if proposal.voice is Voice.TEXT:
            return proposal.raw  # learnt already
        return self.calibration.prob((self.drawing, proposal.voice), depth, proposal.raw)

    def note(self, proposal: Proposal, depth: int, is_right: bool) -> None:
        """Takes the outcome of a proposal whose parent was right."""
        if proposal.voice is not Voice.TEXT:
            self.calibration.note((self.drawing, proposal.voice), depth, proposal.raw, is_right)


@dataclass(slots=True)
class Origin:
    """What is remembered of a node.

    Args:
        proposal: What spoke for it; None for the root.
        places: Where the text goes on below it.
        guesses: What the network says below it, once asked.
        continuations: What the text says below it; None until asked.
        row: Its place among this round's node rows in draft KV, once it has one.
    """

    proposal: Proposal | None
    places: Sequence[Occurrence]
    guesses: Guesses | None = None
    continuations: Sequence[Continuation] | None = None
    row: int | None = None

    @property
    def has_network(self) -> bool:
        """True where the network spoke for it."""
        return self.proposal is not None and self.proposal.voice.has_network


class Growth:
    """One tree.

    Args:
        root_token: The last committed token.
        root_guesses: What the network says follows on it; None without a network.
        sources: What to grow from.
        budget: Largest size, and what rows cost.

    Attributes:
        tree: All candidates so far.
        kept: Those that are sent, by their index in the token tree.
        has_network: True while the network is asked.
        row_count: Node rows in draft KV.
    """

    def __init__(
        self, root_token: int, root_guesses: Guesses | None, sources: Sources, budget: TreeBudget
    ) -> None:
        places = sources.text.places() if sources.text is not None else ()
        self.sources, self.budget = sources, budget
        self.tree = CandidateTree(root_token, Origin(None, places, root_guesses))
        self.kept: list[int] = [ROOT]
        self.has_network = root_guesses is not None
        self.row_count = 0
        self._depth = 0  # nodes of this depth have no children yet
        self._grow()

    def plan_level(self, times: LevelTimes) -> list[int]:
        """Nodes that the network should see next; none where that is not worth the time."""
        if not self.has_network or self._depth >= self.budget.max_depth:
            return []
        # A node that the text alone put under one that the network has not seen has no feedback.
        latest = self.tree.level(self._depth)
        ready = [node for node in latest if self._above(node).guesses is not None]
        nodes = self.sources.shape.to_expand(self.tree, ready, self.budget)
        promised = self._promised(nodes)
        pays = self.sources.shape.pays(self.tree, promised, self.budget, times)
        return nodes if nodes and pays else []

    def rows_of(self, nodes: Sequence[int], true_rows: int, start: int, rank: Ranking) -> NodeRows:
        """The pass that asks the network what follows on some nodes.

        Args:
            nodes: Of `plan_level`.
            true_rows: True rows in draft KV.
            start: Slot of the first of them.
            rank: How to rank guesses.
        """
        above = [self._above(node).guesses for node in nodes]
        paths = [self.tree.path(node)[:-1] for node in nodes]
        rows = [[self.tree.nodes[step].origin.row for step in path] for path in paths]
        return NodeRows(
            true_rows=true_rows,
            depth=self._depth,
            token_ids=[self.tree.nodes[node].token_id for node in nodes],
            feedbacks=[guesses.feedback for guesses in above if guesses is not None],
            ancestors=[[row for row in path if row is not None] for path in rows],
            slots=range(start, start + true_rows + self.row_count + len(nodes)),
            ranking=rank,
        )

    def add_level(self, nodes: Sequence[int], answers: Sequence[Guesses]) -> None:
        """Adds the children of the deepest nodes.

        Args:
            nodes: Those that the network has seen, in the order of its rows.
            answers: What it says follows on each.
        """
        for node, guesses in zip(nodes, answers, strict=True):
            origin = self.tree.nodes[node].origin
            origin.guesses, origin.row = guesses, self.row_count
            self.row_count += 1
        self._grow()

    def finish(self, draft_micros: float) -> TokenTree:
        """Grows on from the text alone and chooses the nodes to send.

        Args:
            draft_micros: What drafting has taken.
        """
        while self._depth < self.budget.max_depth and self.tree.level(self._depth):
            self._grow()
        self.kept = self.sources.shape.kept(self.tree, self.budget, draft_micros)
        return self.tree.token_tree(self.kept)

    def _grow(self) -> None:
        if self._depth < self.budget.max_depth:
            for node in self.tree.level(self._depth):
                origin = self.tree.nodes[node].origin
                if origin.guesses is not None or origin.places:
                    self._add_children(node)
        self._depth += 1

    def _add_children(self, node: int) -> None:
        origin, depth = self.tree.nodes[node].origin, self._depth + 1

        def network_prob(raw: float) -> float:
            return self.sources.prob(Proposal(0, raw, Voice.NETWORK, None), depth)

        proposals = merge(origin.guesses, self._continuations(node), network_prob)
        probs = [self.sources.prob(proposal, depth) for proposal in proposals]
        scale = MAX_MASS / max(MAX_MASS, sum(probs))
        for proposal, prob in zip(proposals, probs, strict=True):
            said = proposal.continuation
            below = Origin(proposal, () if said is None else said.places)
            self.tree.add(node, proposal.token_id, prob * scale, below)

    def _continuations(self, node: int) -> Sequence[Continuation]:
        candidate, text = self.tree.nodes[node], self.sources.text
        origin = candidate.origin
        if origin.continuations is None:
            origin.continuations = ()
            if text is not None and origin.places and candidate.survival >= MIN_SURVIVAL:
                limit = self.budget.parallel_degree
                origin.continuations = text.continuations(origin.places, limit)
        return origin.continuations

    def _promised(self, nodes: Sequence[int]) -> list[float]:
        """Survival of one child more below each node, were the network as good as above.

        What the text already offers there is taken off.
        """
        candidates = self.tree.nodes
        above = [candidates[node] for node in self.tree.level(self._depth - 1)]
        latest = [candidates[node] for node in self.tree.level(self._depth)]
        asked = sum(node.survival for node in above if node.origin.guesses is not None)
        found = sum(node.survival for node in latest if node.origin.has_network)
        hit_rate = found / asked if asked else 0.0
        offered = [sum(one.prob for one in self._continuations(node)) for node in nodes]
        return [
            candidates[node].survival * hit_rate * (1.0 - share)
            for node, share in zip(nodes, offered, strict=True)
        ]

    def _above(self, node: int) -> Origin:
        return self.tree.nodes[self.tree.nodes[node].parent].origin
