"""From times and counts to rates, ratios and the split of a round. Policy: no clock, no I/O.

A rate of decoding leaves out the first message, so that the prompt's own cost does not blur it;
the rate of the whole counts everything.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self

PARTS = ("draft", "wire", "queue", "verify", "other")

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Timing:
    """When the tokens of one answer, or of answers that ran together, came.

    Args:
        tokens: All of them.
        first_tokens: Of tokens, those of the answers' first messages.
        first_s: From the start to the first message, seconds.
        last_s: From the start to the last message, seconds.
    """

    tokens: int
    first_tokens: int
    first_s: float
    last_s: float

    @property
    def decoded(self) -> int:
        """Tokens after the first messages."""
        return self.tokens - self.first_tokens

    @property
    def decode_s(self) -> float:
        """Time of the decoded tokens, seconds."""
        return self.last_s - self.first_s


@dataclass(frozen=True, slots=True)
class Rounds:
    """Sums over rounds, as the speculation report has them; times in microseconds.

    Args:
        offered_by_depth: Rounds that got to a depth and had candidates there, from depth 1.
        accepted_by_depth: Of those, the ones in which a candidate was accepted.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_us: int = 0
    wire_us: int = 0
    queue_us: int = 0
    verify_us: int = 0
    offered_by_depth: tuple[int, ...] = ()
    accepted_by_depth: tuple[int, ...] = ()

    def __add__(self, other: Self) -> "Rounds":
        by_depth = ("offered_by_depth", "accepted_by_depth")
        counts = [f for f in Rounds.__slots__ if f not in by_depth]
        return Rounds(
            *(getattr(self, f) + getattr(other, f) for f in counts),
            *(_add_up(getattr(self, f), getattr(other, f)) for f in by_depth),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured unit: a prompt's answer, or those of a group that ran together.

    Args:
        task: Task of the prompts.
        timing: When the tokens came.
        stream_s: Lengths of all streams, summed, seconds.
        rounds: What the reports say, summed; no rounds for a baseline without reports.
    """

    task: str
    timing: Timing
    stream_s: float
    rounds: Rounds = Rounds()


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the bounds of its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What the samples of one method say; rates in tokens per second.

    Args:
        tokens: All generated tokens.
        decode_rate: Without the first messages.
        whole_rate: With everything.
        first_ms: Median time to the first message, milliseconds.
        tokens_per_round: The bonus token included; 0 without rounds.
        acceptance: Accepted of the drafted nodes, 0 to 1; 0 where none was drafted.
        acceptance_by_depth: Of the rounds that got to a depth and had candidates there, the share
            in which one was accepted; one entry per depth, from 1.
        round_us: Microseconds per round of each of PARTS; empty without rounds.
        services_share: Wire and other, of the time of the streams, 0 to 1.
        services_share_of_decode: The same, of the time after the first messages only: an upper
            bound of what they cost a round, since it charges the prompt's share too.
    """

    tokens: int
    decode_rate: float
    whole_rate: float
    first_ms: float
    tokens_per_round: float
    acceptance: float
    acceptance_by_depth: tuple[float, ...]
    round_us: dict[str, float]
    services_share: float
    services_share_of_decode: float


def decode_rate(timings: Sequence[Timing]) -> float:
    """Decoded tokens per second of decoding over all timings; 0 where nothing was decoded."""
    seconds = sum(timing.decode_s for timing in timings)
    return sum(timing.decoded for timing in timings) / seconds if seconds > 0 else 0.0


def summarise(samples: Sequence[Sample]) -> Summary:
    """Sums samples of one method up.

    Args:
        samples: At least one.
    """
    timings = [sample.timing for sample in samples]
    tokens = sum(timing.tokens for timing in timings)
    rounds = sum((sample.rounds for sample in samples), Rounds())
    round_us = split_of_round(rounds, sum(sample.stream_s for sample in samples))
    services_us = rounds.rounds * (round_us["wire"] + round_us["other"]) if round_us else 0.0
    decode_s = sum(timing.decode_s for timing in timings)
    return Summary(
        tokens=tokens,
        decode_rate=decode_rate(timings),
        whole_rate=tokens / sum(timing.last_s for timing in timings),
        first_ms=1e3 * statistics.median(timing.first_s for timing in timings),
        tokens_per_round=tokens / rounds.rounds if rounds.rounds else 0.0,
        acceptance=rounds.accepted / rounds.drafted if rounds.drafted else 0.0,
        acceptance_by_depth=tuple(
            accepted / offered
            for offered, accepted in zip_longest(
                rounds.offered_by_depth, rounds.accepted_by_depth, fillvalue=0
            )
        ),
        round_us=round_us,
        services_share=services_us / 1e6 / sum(sample.stream_s for sample in samples),
        services_share_of_decode=services_us / 1e6 / decode_s if decode_s > 0 else 0.0,
    )


def split_of_round(rounds: Rounds, stream_s: float) -> dict[str, float]:
    """Where a mean round's time went.

    Args:
        rounds: Sums of the reports.
        stream_s: Lengths of the same streams on the client's clock, seconds.

    Returns:
        Microseconds of each of PARTS; "other" is what the reports do not explain: gateway, gRPC,
        client. Empty without rounds.
    """
    if not rounds.rounds:
        return {}
    known = [rounds.draft_us, rounds.wire_us, rounds.queue_us, rounds.verify_us]
    sums = [*known, stream_s * 1e6 - sum(known)]
    return {part: value / rounds.rounds for part, value in zip(PARTS, sums, strict=True)}


def rate_ratio(ours: Sequence[Timing], theirs: Sequence[Timing], seed: int = 0) -> Estimate | None:
    """How many times faster one way of decoding is than another on the same prompts.

    The interval is a percentile bootstrap over prompts: both timings of a prompt are drawn
    together, so that long and short answers weigh alike on both sides.

    Args:
        ours: One a prompt.
        theirs: Of the same prompts in the same order.
        seed: Of the bootstrap.

    Returns:
        The ratio of the pooled decode rates; None where either side decoded nothing.
    """
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.decoded and b.decoded]
    if not pairs:
        return None
    draws = random.Random(seed)
    ratios = sorted(_pooled_ratio(draws.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Estimate(_pooled_ratio(pairs), ratios[tail], ratios[-1 - tail])


def geometric_mean(values: Sequence[float]) -> float:
    """Of at least one value above 0."""
    return statistics.geometric_mean(values)


def _add_up(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def _pooled_ratio(pairs: Sequence[tuple[Timing, Timing]]) -> float:
    return decode_rate([a for a, _ in pairs]) / decode_rate([b for _, b in pairs])
