"""One stream on a draft worker, and what the engine tells its owner about it."""

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from draft_service.company import ALONE, Company
from draft_service.feature_intake import FeatureIntake
from outrider.protocol.decoding import FinishReason, Speculation, TopLogProbs
from outrider.protocol.errors import OutriderError
from outrider.protocol.messages import Verdict
from outrider.protocol.round_tree import RoundTree
from outrider.protocol.session import Committed, DraftSession
from outrider.protocol.token_tree import ROOT, TokenTree


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """Where one round's time went, microseconds.

    Args:
        started: When drafting began, seconds of the worker's clock.
        ended: When the verdict was taken, same clock.
        draft_us: Building the tree.
        wire_us: Between the workers: serialising, sockets, waking up.
        queue_us: Waiting for a place in a verify step.
        verify_us: The target's forward pass and the acceptance.
    """

    started: float
    ended: float
    draft_us: int
    wire_us: int
    queue_us: int
    verify_us: int


class Reach(NamedTuple):
    """How deep one round got.

    Args:
        offered: Depth down to which the accepted path had candidates to go on with.
        accepted: Depth of the accepted path: `offered`, or one less.
    """

    offered: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Totals:
    """A stream's sums, for its report; those by depth have an entry for each depth reached."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    committed: int = 0
    draft_us: int = 0
    wire_us: int = 0
    queue_us: int = 0
    verify_us: int = 0
    offered_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()

    def plus(self, drafted: int, reach: "Reach", committed: int, times: RoundTimes) -> "Totals":
        """The sums with one more round."""
        return Totals(
            rounds=self.rounds + 1,
            drafted=self.drafted + drafted,
            accepted=self.accepted + reach.accepted,
            committed=self.committed + committed,
            draft_us=self.draft_us + times.draft_us,
            wire_us=self.wire_us + times.wire_us,
            queue_us=self.queue_us + times.queue_us,
            verify_us=self.verify_us + times.verify_us,
            offered_by_depth=_count_up_to(self.offered_by_depth, reach.offered),
            accepted_by_depth=_count_up_to(self.accepted_by_depth, reach.accepted),
        )

    @property
    def tokens_per_round(self) -> float:
        """Mean tokens committed per round, the bonus token included; 0 before the first."""
        return self.committed / self.rounds if self.rounds else 0.0


@dataclass(frozen=True, slots=True)
class RoundDone:
    """One round's outcome.

    Args:
        session_id: Stream.
        round: Number within the epoch.
        index: Place of the first token in the generated tokens.
        token_ids: Newly committed, at least one.
        log_probs: One per token where wanted, else empty.
        top_log_probs: The same.
        reach: How many came from the tree (they come first), and how many could have.
        tree: What was proposed, and what of it was accepted.
        finish_reason: Set with the last round.
        times: Where the time went.
        totals: The stream's sums, this round included.
    """

    session_id: bytes
    round: int
    index: int
    token_ids: list[int]
    log_probs: tuple[float, ...]
    top_log_probs: tuple[TopLogProbs, ...]
    reach: Reach
    tree: RoundTree
    finish_reason: FinishReason | None
    times: RoundTimes
    totals: Totals

    @property
    def drafted_count(self) -> int:
        """Nodes proposed, the root excluded."""
        return self.tree.tree.drafted_count


@dataclass(frozen=True, slots=True)
class Failed:
    """A stream that cannot go on here."""

    session_id: bytes
    error: OutriderError


Event = RoundDone | Failed


@dataclass(slots=True, eq=False)
class Drafting:
    """One stream.

    Args:
        session: Its half of the conversation.
        speculation: What the request asked for.
        method: Draft method in use.
        link: Number of the verify worker that holds it, or None while it waits for one.
        homeless_since: When it lost its verify worker, seconds.
        resyncs: How often it was placed anew because of a verdict that did not fit.
        intake: Features of this placement; None where none are wanted.
        failovers: How often it lost its verify worker.
        feature_losses: How often features were lost on the way.
        company: Who shared the last verify step.
        draft_started: When drafting of the outstanding tree began, seconds.
        sent_at: When the outstanding tree was sent, seconds.
        draft_us: Drafting time of the outstanding tree.
        unread_rounds: Rounds that were told and that nobody has read yet.
        wants_full_trees: Its trees have as many nodes as they may, whatever they cost: it measures
            how good the guesses are.
    """

    session: DraftSession
    speculation: Speculation
    method: str
    link: int | None = None
    homeless_since: float = 0.0
    resyncs: int = 0
    intake: FeatureIntake | None = None
    failovers: int = 0
    feature_losses: int = 0
    company: Company = ALONE
    draft_started: float = 0.0
    sent_at: float = 0.0
    draft_us: int = 0
    totals: Totals = Totals()
    unread_rounds: int = 0
    wants_full_trees: bool = False

    @property
    def session_id(self) -> bytes:
        """Its id."""
        return self.session.session_id

    @property
    def lacks_features(self) -> bool:
        """True where features of committed rows are wanted and have not come."""
        return self.intake is not None and self.intake.is_behind(self.session.committed_rows)


def round_done(
    drafting: Drafting,
    verdict: Verdict,
    committed: Committed,
    index: int,
    tree: TokenTree,
    now: float,
) -> RoundDone:
    """What a verdict that was taken means, added to the stream's sums.

    Args:
        drafting: The stream.
        verdict: What it was answered.
        committed: What that added.
        index: Place of the first added token in the generated tokens.
        tree: What was proposed.
        now: Seconds.
    """
    round_trip_us = round((now - drafting.sent_at) * 1e6)
    times = RoundTimes(
        started=drafting.draft_started,
        ended=now,
        draft_us=drafting.draft_us,
        wire_us=max(0, round_trip_us - verdict.queue_us - verdict.verify_us),
        queue_us=verdict.queue_us,
        verify_us=verdict.verify_us,
    )
    last = verdict.accepted_indices[-1] if verdict.accepted_indices else ROOT
    accepted = committed.accepted_count
    reach = Reach(len(verdict.accepted_indices) + tree.has_children(last), accepted)
    drafting.totals = drafting.totals.plus(
        tree.drafted_count, reach, len(committed.token_ids), times
    )
    return RoundDone(
        session_id=drafting.session_id,
        round=verdict.round,
        index=index,
        token_ids=committed.token_ids,
        log_probs=committed.log_probs,
        top_log_probs=committed.top_log_probs,
        reach=reach,
        tree=RoundTree(tree, verdict.accepted_indices),
        finish_reason=committed.finish_reason,
        times=times,
        totals=drafting.totals,
    )


def _count_up_to(counts: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The counts with one more at each depth from 1 to `depth`."""
    return tuple(a + b for a, b in zip_longest(counts, (1,) * depth, fillvalue=0))
