"""From the times of many streams to what a load test says of a service. No clock, no I/O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """One answered request; seconds from the start of the point.

    Args:
        asked_s: When it was sent.
        message_s: When each message with tokens came.
        message_tokens: Tokens of each.
        rounds: Exchanges of a tree and a verdict.
    """

    asked_s: float
    message_s: tuple[float, ...]
    message_tokens: tuple[int, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Load:
    """What is put on the service: streams at a time, or requests a second.

    Args:
        streams: Closed loop: a finished stream makes room for the next; 0: open loop.
        rate: Open loop: requests a second, whether the service keeps up or not.
    """

    streams: int = 0
    rate: float = 0.0

    @property
    def name(self) -> str:
        """As a table shows it."""
        return f"{self.streams} at a time" if self.streams else f"{self.rate:g} a second"


@dataclass(frozen=True, slots=True)
class Point:
    """One method under one load; times in milliseconds.

    Args:
        method: Draft method.
        load: What was put on the service.
        requests: Answered ones.
        refused: Those that were not.
        token_rate: Tokens a second, all streams together.
        request_rate: Answers a second.
        first_ms: Time to the first token, its median and 99th percentile.
        gap_ms: Time between messages of a stream, the same.
        tokens_per_round: The bonus token included.
        kv_peak: Largest share of the KV pool that was in use, 0 to 1; None: not known.
        last_ms: Time to the last token, its median and 99th percentile.
    """

    method: str
    load: Load
    requests: int
    refused: int
    token_rate: float
    request_rate: float
    first_ms: tuple[float, float]
    gap_ms: tuple[float, float]
    tokens_per_round: float
    kv_peak: float | None
    last_ms: tuple[float, float] = (0.0, 0.0)


def point_of(
    method: str,
    load: Load,
    streams: Sequence[StreamTimes],
    refused: int,
    kv_peak: float | None,
) -> Point:
    """Sums one point up.

    Args:
        method: Draft method.
        load: What was put on the service.
        streams: Those that were answered.
        refused: Number of those that were not.
        kv_peak: As in `Point`.
    """
    tokens = sum(sum(one.message_tokens) for one in streams)
    rounds = sum(one.rounds for one in streams)
    ends = [one.message_s[-1] for one in streams if one.message_s]
    seconds = max(ends, default=0.0) - min((one.asked_s for one in streams), default=0.0)
    firsts = [one.message_s[0] - one.asked_s for one in streams if one.message_s]
    gaps = [
        later - earlier
        for one in streams
        for earlier, later in zip(one.message_s, one.message_s[1:], strict=False)
    ]
    return Point(
        method=method,
        load=load,
        requests=len(streams),
        refused=refused,
        token_rate=tokens / seconds if seconds > 0 else 0.0,
        request_rate=len(ends) / seconds if seconds > 0 else 0.0,
        first_ms=_middle_and_tail(firsts),
        gap_ms=_middle_and_tail(gaps),
        tokens_per_round=tokens / rounds if rounds else 0.0,
        kv_peak=kv_peak,
        last_ms=_middle_and_tail([s.message_s[-1] - s.asked_s for s in streams if s.message_s]),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least a share of all does not exceed; 0 of none.

    Args:
        values: In any order.
        share: Above 0, to 1.
    """
    if not values:
        return 0.0
    return sorted(values)[math.ceil(share * len(values)) - 1]


def _middle_and_tail(seconds: Sequence[float]) -> tuple[float, float]:
    return 1e3 * percentile(seconds, 0.5), 1e3 * percentile(seconds, 0.99)
