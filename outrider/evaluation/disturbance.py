"""What a disturbed run does and what it says: which worker is struck when, and how long streams
were silent for it. Policy: plain values; times are arguments."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

WINDOW_S = 10.0  # silence that begins later has another cause
LONGEST_DELAY_S = 1.5


GRACE_S = 30.0  # a process that is told to end by SIGTERM and takes longer is late


class Strike(StrEnum):
    """What happens to a process; TERM asks it to drain."""

    KILL = "kill"
    STOP = "stop"
    TERM = "term"


UNASKED = (Strike.KILL, Strike.STOP)  # what befalls workers without warning


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
        role = self.victim.partition("-")[0]
        return f"{role if role == 'gateway' else role + ' worker'}, {self.strike}"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended that was told to by SIGTERM.

    Args:
        victim: Its name.
        status: Exit status; minus the signal's number where one killed it; None: it did not end.
        took_s: From the signal to the end, seconds.
    """

    victim: str
    status: int | None
    took_s: float

    @property
    def is_clean(self) -> bool:
        """True where it ended as it should, in time."""
        return self.status == 0 and self.took_s <= GRACE_S


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
        endings: How the processes ended that were told to.
        left: What was still in use when all streams had ended, by metric.
    """

    gaps: tuple[Gaps, ...]
    streams: int
    moved: int
    tokens: int
    differing: tuple[int, ...]
    problems: tuple[str, ...]
    endings: tuple[Ending, ...] = ()
    left: Mapping[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True where clients noticed nothing, nothing was kept, and who was told to end did so."""
        is_unnoticed = not self.differing and not self.problems and not any(self.left.values())
        return is_unnoticed and all(ending.is_clean for ending in self.endings)


def plan_blows(victims: Sequence[str], count: int, seed: int) -> list[Blow]:
    """Draws what happens, the same for a seed."""
    draws = random.Random(seed)
    return [
        Blow(draws.choice(victims), draws.choice(UNASKED), draws.uniform(0.0, LONGEST_DELAY_S))
        for _ in range(count)
    ]


def plan_drains(victims: Sequence[str], rounds: int, seed: int) -> list[Blow]:
    """In each round one process of each role is told to end, and those of a role take turns.

    Args:
        victims: Names of all processes.
        rounds: How many.
        seed: Of the moments.
    """
    draws = random.Random(seed)
    roles: dict[str, list[str]] = {}
    for victim in sorted(victims):
        roles.setdefault(victim.partition("-")[0], []).append(victim)
    return [
        Blow(names[number % len(names)], Strike.TERM, draws.uniform(0.0, LONGEST_DELAY_S))
        for number in range(rounds)
        for names in roles.values()
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
    endings: Sequence[Ending] = (),
    left: Mapping[str, float] | None = None,
) -> Outcome:
    """Sums a run up.

    Args:
        blows: What fell, and when, seconds.
        streams: All that were asked.
        expected: Ids of the undisturbed run, by request.
        endings: Of the processes that were told to end.
        left: What was still in use at the end, by metric.
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
        endings=tuple(endings),
        left=left or {},
    )


def _gaps(kind: str, blows: Sequence[tuple[Blow, float]], moved: Sequence[StreamRecord]) -> Gaps:
    found = [longest_silence(stream, at_s) for _, at_s in blows for stream in moved]
    return Gaps(kind, len(blows), tuple(sorted(gap for gap in found if gap is not None)))
