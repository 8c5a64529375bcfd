"""What a disturbed run does and what it says: which worker is struck when, and how long streams
were silent for it. Policy: plain values; times are arguments."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

WINDOW_S = 10.0  # silence that begins later has another cause
LONGEST_DELAY_S = 1.5


class Strike(StrEnum):
    """What happens to a worker."""

    KILL = "kill"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Blow:
    """One disturbance.

    Args:
        victim: Name of the process, such as `verify-2`.
        strike: What happens to it.
        delay_s: Since all workers were there, seconds.
    """

    victim: str
    strike: Strike
    delay_s: float

    @property
    def kind(self) -> str:
        """What the victim is, and what happened to it."""
        return f"{self.victim.partition('-')[0]} worker, {self.strike}"


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One stream as its client saw it; seconds of one clock.

    Args:
        request: Which of the requests it was, from 0.
        asked_s: When it was sent.
        message_s: When each message with ids came.
        token_ids: All ids.
        failovers: Times that it went on elsewhere.
        problem: Why it did not end well, or "".
    """

    request: int
    asked_s: float
    message_s: tuple[float, ...] = ()
    token_ids: tuple[int, ...] = ()
    failovers: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Silence of the streams that went on elsewhere because of one kind of blow.

    Args:
        kind: See `Blow.kind`.
        blows: How many there were.
        longest_s: Longest silence of each such stream, seconds, rising.
    """

    kind: str
    blows: int
    longest_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of a run.

    Args:
        gaps: By kind of blow, and of all.
        streams: Streams that ended, well or not.
        moved: Those that went on elsewhere at least once.
        tokens: Ids that came.
        differing: Requests whose ids were not those of the undisturbed run.
        problems: What clients were told where a stream failed.
    """

    gaps: tuple[Gaps, ...]
    streams: int
    moved: int
    tokens: int
    differing: tuple[int, ...]
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True where clients noticed nothing."""
        return not self.differing and not self.problems


def plan_blows(victims: Sequence[str], count: int, seed: int) -> list[Blow]:
    """Draws what happens, the same for a seed."""
    draws = random.Random(seed)
    return [
        Blow(draws.choice(victims), draws.choice(list(Strike)), draws.uniform(0.0, LONGEST_DELAY_S))
        for _ in range(count)
    ]


def longest_silence(stream: StreamRecord, at_s: float) -> float | None:
    """The longest time without a message that a blow can have caused.

    Args:
        stream: Ended well.
        at_s: When the blow fell, seconds.

    Returns:
        Seconds; None where the stream was not running then.
    """
    times = (stream.asked_s, *stream.message_s)
    if not times[0] <= at_s < times[-1]:
        return None
    pairs = itertools.pairwise(times)
    return max(end - start for start, end in pairs if start < at_s + WINDOW_S and end > at_s)


def outcome_of(
    blows: Sequence[tuple[Blow, float]],
    streams: Sequence[StreamRecord],
    expected: Sequence[tuple[int, ...]],
) -> Outcome:
    """Sums a run up.

    Args:
        blows: What fell, and when, seconds.
        streams: All that were asked.
        expected: Ids of the undisturbed run, by request.
    """
    well = [stream for stream in streams if not stream.problem]
    moved = [stream for stream in well if stream.failovers]
    kinds = sorted({blow.kind for blow, _ in blows})
    gaps = [_gaps(kind, [b for b in blows if b[0].kind == kind], moved) for kind in kinds]
    return Outcome(
        gaps=(*gaps, _gaps("all", blows, moved)),
        streams=len(streams),
        moved=len(moved),
        tokens=sum(len(stream.token_ids) for stream in streams),
        differing=tuple(s.request for s in well if s.token_ids != expected[s.request]),
        problems=tuple(stream.problem for stream in streams if stream.problem),
    )


def _gaps(kind: str, blows: Sequence[tuple[Blow, float]], moved: Sequence[StreamRecord]) -> Gaps:
    found = [longest_silence(stream, at_s) for _, at_s in blows for stream in moved]
    return Gaps(kind, len(blows), tuple(sorted(gap for gap in found if gap is not None)))
