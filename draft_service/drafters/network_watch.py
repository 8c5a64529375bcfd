"""Whether a draft network is worth having for one session, judged every few rounds."""

from dataclasses import dataclass
from enum import StrEnum

WINDOW = 32  # rounds that are judged together
LATE_WINDOWS = 2  # in a row: times are noisy, and a network that is dropped does not come back
FEWEST_HITS = 2  # of WINDOW first tokens that must be among the network's guesses


class DropReason(StrEnum):
    """Why a session goes on without its network."""

    NON_FINITE = "non_finite"  # it gives numbers that are none
    LATE = "late"  # what it wins takes longer than plain decoding would
    USELESS = "useless"  # it is hardly ever right
    MISSING_FEATURES = "missing_features"  # rows were skipped, or did not come
    WRONG_FEATURES = "wrong_features"  # rows of another width
    UNKNOWN_TOKEN = "unknown_token"  # one that a draft model's vocabulary lacks
    TOO_LONG = "too_long"  # more tokens than a draft model was made for
    NO_ROOM = "no_room"  # the draft KV pool is full
    FAILED = "failed"  # it raised an error
    RESTING = "resting"  # nothing is wrong with it: streams are faster without, at this load


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round with a network cost this session, and what a token costs without; microseconds.

    Args:
        network: The session's share of the network's passes.
        verify: What the tree's rows added to the target's pass.
        plain: The session's share of a pass that commits one token of it.
    """

    network: float
    verify: float
    plain: float


class NetworkWatch:
    """One session's rounds."""

    def __init__(self) -> None:
        self._rounds = 0
        self._hits = 0
        self._won = 0.0
        self._late_windows = 0

    def note(self, is_hit: bool, accepted: int, cost: RoundCost) -> DropReason | None:
        """Takes one round in which the network guessed.

        Args:
            is_hit: The first token was among the network's guesses.
            accepted: Accepted nodes for which the network spoke.
            cost: Of the round, as far as the network is to blame.

        Returns:
            Why the network should be dropped, if it should.
        """
        self._rounds += 1
        self._hits += is_hit
        self._won += accepted * cost.plain - cost.network - cost.verify
        if self._rounds < WINDOW:
            return None
        hits, won = self._hits, self._won
        self._rounds, self._hits, self._won = 0, 0, 0.0
        if hits < FEWEST_HITS:
            return DropReason.USELESS
        self._late_windows = self._late_windows + 1 if won < 0.0 else 0
        return DropReason.LATE if self._late_windows == LATE_WINDOWS else None
