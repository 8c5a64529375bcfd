"""The conversation about one session, without sockets: one half for each worker.

A session is placed on a verify worker under an *epoch*. Within it, rounds are numbered from 0 and
at most one tree is outstanding; that is the whole flow control:

    draft:   READY --propose--> WAITING --verdict--> READY ... --last verdict--> FINISHED
             READY or WAITING --reopen (epoch + 1, round 0)--> READY
    verify:  IDLE --tree--> PENDING --decide--> IDLE ... --last decision--> FINISHED

A message of an older epoch or round is stale: dropped and counted. A repeated tree gets the verdict
it got before, so a lost answer can be asked for again without moving anything twice.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from outrider.protocol.decoding import LOSSLESS, DecodeLimits, FinishReason, Sampling, TopLogProbs
from outrider.protocol.errors import InvalidField
from outrider.protocol.messages import CloseSession, OpenSession, ProposeTree, Verdict
from outrider.protocol.token_tree import TokenTree


class OutOfTurn(Exception):
    """The session is not in a state where this may be done: a bug on our own side."""


def tokens_left(token_count: int, prompt_length: int, limits: DecodeLimits, context: int) -> int:
    """Tokens a session may still commit, at least 0.

    Args:
        token_count: Prompt and committed tokens so far.
        prompt_length: Tokens of the prompt.
        limits: When the session ends.
        context: Most tokens of a session, prompt included.
    """
    return max(0, min(prompt_length + limits.max_new_tokens, context) - token_count)


# ---- the draft worker's half


class DraftState(Enum):
    """Where the draft worker's half stands."""

    READY = auto()
    WAITING = auto()
    FINISHED = auto()


class Committed(NamedTuple):
    """What one verdict added."""

    token_ids: list[int]
    accepted_count: int
    log_probs: tuple[float, ...]
    top_log_probs: tuple[TopLogProbs, ...]
    finish_reason: FinishReason | None


@dataclass(slots=True)
class DraftSession:
    """The draft worker's half.

    Args:
        session_id: 16 bytes.
        epoch: Number of this placement.
        prompt_length: Tokens of the prompt.
        token_ids: Prompt and committed tokens; grows with each verdict.
        sampling: How tokens are drawn.
        limits: When the session ends.
        wants_log_probs: True: log-probabilities are wanted.
        top_log_prob_count: Likeliest tokens wanted beside each committed one.
        cache_salt: Cached rows are shared with sessions of the same salt only.
        validation_threshold: As in `Speculation`.
        traceparent: W3C trace context, or "".
    """

    session_id: bytes
    epoch: int
    prompt_length: int
    token_ids: list[int]
    sampling: Sampling
    limits: DecodeLimits
    wants_log_probs: bool = False
    traceparent: str = ""
    top_log_prob_count: int = 0
    cache_salt: bytes = b""
    validation_threshold: float = LOSSLESS
    round: int = 0
    state: DraftState = DraftState.READY
    tree: TokenTree | None = None

    def open(self, features_from: int | None = None) -> OpenSession:
        """The message that places the session under the current epoch.

        Args:
            features_from: First row whose features are wanted; None: none are.
        """
        return OpenSession(
            session_id=self.session_id,
            epoch=self.epoch,
            token_ids=tuple(self.token_ids),
            prompt_length=self.prompt_length,
            sampling=self.sampling,
            limits=self.limits,
            wants_log_probs=self.wants_log_probs,
            traceparent=self.traceparent,
            features_from=features_from,
            top_log_prob_count=self.top_log_prob_count,
            cache_salt=self.cache_salt,
            validation_threshold=self.validation_threshold,
        )

    def propose(self, tree: TokenTree) -> ProposeTree:
        """Sends a tree and waits.

        Raises:
            OutOfTurn: A tree is outstanding, or the session has ended.
        """
        if self.state is not DraftState.READY or tree.token_ids[0] != self.token_ids[-1]:
            raise OutOfTurn(f"propose in {self.state.name} with root {tree.token_ids[0]}")
        self.state, self.tree = DraftState.WAITING, tree
        return ProposeTree(self.session_id, self.epoch, self.round, tree)

    def repeat(self) -> ProposeTree:
        """The outstanding tree once more, where its verdict may have been lost.

        Raises:
            OutOfTurn: No tree is outstanding.
        """
        if self.tree is None:
            raise OutOfTurn(f"repeat in {self.state.name}")
        return ProposeTree(self.session_id, self.epoch, self.round, self.tree)

    @property
    def committed_rows(self) -> int:
        """Rows that are committed: one for each token but the last, which is the next root."""
        return len(self.token_ids) - 1

    @property
    def possible_rows(self) -> int:
        """Rows that are committed once the outstanding tree is answered, at most."""
        return self.committed_rows + (1 + max(self.tree.depths()) if self.tree else 0)

    def take(self, verdict: Verdict) -> Committed | None:
        """Commits what a verdict says.

        Returns:
            What was added, or None where the verdict is stale (another epoch or round).

        Raises:
            InvalidField: The verdict does not fit the tree; nothing was committed.
        """
        current = (self.epoch, self.round)
        if self.tree is None or (verdict.epoch, verdict.round) != current:
            return None
        token_ids = verdict.committed_tokens(self.tree)
        for name, is_wanted, found in (
            ("log_probs", self.wants_log_probs, len(verdict.log_probs)),
            ("top_log_probs", self.top_log_prob_count > 0, len(verdict.top_log_probs)),
        ):
            if found != (len(token_ids) if is_wanted else 0):
                raise InvalidField(name, f"{found} for {len(token_ids)} committed tokens")
        self.token_ids.extend(token_ids)
        self.round += 1
        self.tree = None
        self.state = DraftState.FINISHED if verdict.finish_reason else DraftState.READY
        return Committed(
            token_ids,
            len(verdict.accepted_indices),
            verdict.log_probs,
            verdict.top_log_probs,
            verdict.finish_reason,
        )

    def reopen(self, features_from: int | None = None) -> OpenSession:
        """Places the session anew with all it has committed; an outstanding tree is forgotten.

        Args:
            features_from: First row whose features are still wanted; None: none are.

        Raises:
            OutOfTurn: The session has ended.
        """
        if self.state is DraftState.FINISHED:
            raise OutOfTurn("reopen of a finished session")
        self.epoch += 1
        self.round = 0
        self.tree = None
        self.state = DraftState.READY
        return self.open(features_from)

    def close(self) -> CloseSession:
        """The message that frees the session."""
        self.state, self.tree = DraftState.FINISHED, None
        return CloseSession(self.session_id, self.epoch)


# ---- the verify worker's half


class Standing(Enum):
    """What an arriving tree is to a session."""

    NEW = auto()
    REPEATED = auto()
    STALE = auto()
    SKIPPED = auto()


@dataclass(slots=True)
class RoundLedger:
    """The verify worker's half: which round is next, which tree is pending, what was answered."""

    epoch: int
    next_round: int = 0
    pending: TokenTree | None = None
    last_verdict: Verdict | None = None

    def standing(self, proposal: ProposeTree) -> Standing:
        """Places an arriving tree; changes nothing."""
        if proposal.epoch != self.epoch:
            return Standing.STALE if proposal.epoch < self.epoch else Standing.SKIPPED
        if proposal.round == self.next_round - 1 and self.last_verdict is not None:
            return Standing.REPEATED
        if proposal.round < self.next_round or self.pending is not None:
            return Standing.STALE
        return Standing.NEW if proposal.round == self.next_round else Standing.SKIPPED

    def accept(self, proposal: ProposeTree) -> None:
        """Makes a NEW tree the pending one.

        Raises:
            OutOfTurn: It is not NEW.
        """
        if self.standing(proposal) is not Standing.NEW:
            raise OutOfTurn(f"tree of round {proposal.round}, next is {self.next_round}")
        self.pending = proposal.tree

    def decide(self, verdict: Verdict) -> None:
        """Records the answer to the pending tree.

        Raises:
            OutOfTurn: No tree is pending, or the verdict is of another round.
        """
        expected = (self.epoch, self.next_round)
        if self.pending is None or (verdict.epoch, verdict.round) != expected:
            raise OutOfTurn(f"verdict of round {verdict.round}, next is {self.next_round}")
        self.pending = None
        self.next_round += 1
        self.last_verdict = verdict
