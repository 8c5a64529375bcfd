"""Whether a head is worth having for one session, judged every few rounds."""

from dataclasses import dataclass
from enum import StrEnum

WINDOW = 32  # rounds that are judged together
LATE_WINDOWS = 2  # in a row: times are noisy, and a head that is dropped does not come back
FEWEST_HITS = 2  # of WINDOW first tokens that must be among the head's guesses


class DropReason(StrEnum):
    """Why a session goes on without its head."""

    NON_FINITE = "non_finite"  # it gives numbers that are none
    LATE = "late"  # what it wins takes longer than plain decoding would
    USELESS = "useless"  # it is hardly ever right
    MISSING_FEATURES = "missing_features"  # rows were skipped, or did not come
    WRONG_FEATURES = "wrong_features"  # rows of another width
    NO_ROOM = "no_room"  # the draft KV pool is full
    FAILED = "failed"  # it raised an error


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round with the head cost this session, and what a token costs without, microseconds.

    Args:
        head: The session's share of the head's passes.
        verify: What the tree's rows added to the target's pass.
        plain: The session's share of a pass that commits one token of it.
    """

    head: float
    verify: float
    plain: float


class HeadWatch:
    """One session's rounds."""

    def __init__(self) -> None:
        self._rounds = 0
        self._hits = 0
        self._won = 0.0
        self._late_windows = 0

    def note(self, is_hit: bool, accepted: int, cost: RoundCost) -> DropReason | None:
        """Takes one round in which the head guessed.

        Args:
            is_hit: The first token was among the head's guesses.
            accepted: Accepted nodes for which the head spoke.
            cost: Of the round, as far as the head is to blame.

        Returns:
            Why the head should be dropped, if it should.
        """
        self._rounds += 1
        self._hits += is_hit
        self._won += accepted * cost.plain - cost.head - cost.verify
        if self._rounds < WINDOW:
            return None
        hits, won = self._hits, self._won
        self._rounds, self._hits, self._won = 0, 0, 0.0
        if hits < FEWEST_HITS:
            return DropReason.USELESS
        self._late_windows = self._late_windows + 1 if won < 0.0 else 0
        return DropReason.LATE if self._late_windows == LATE_WINDOWS else None
