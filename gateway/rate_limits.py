"""What each caller has left of its minute: requests, and tokens of prompts and answers.

Policy: no clock. The table is bounded: where there are too many names, the one that has been silent
for longest is forgotten, whose buckets are the fullest.
"""

from collections import OrderedDict
from dataclasses import dataclass

from gateway.token_bucket import TokenBucket
from outrider.protocol.errors import RateLimited


@dataclass(frozen=True, slots=True)
class Rates:
    """What a minute brings; 0: no bound.

    Args:
        requests_per_minute: Requests that generate.
        tokens_per_minute: Tokens of prompts and answers.
    """

    requests_per_minute: int = 0
    tokens_per_minute: int = 0


UNBOUNDED = Rates()


@dataclass(slots=True)
class _Minute:
    rates: Rates
    requests: TokenBucket | None
    tokens: TokenBucket | None


class RateLimits:
    """One table of callers.

    Args:
        whose: What a name stands for, as in "this key may make ...".
        max_names: Most that are remembered, at least 1.
    """

    def __init__(self, whose: str, max_names: int) -> None:
        self._whose = whose
        self._max_names = max_names
        self._minutes: OrderedDict[str, _Minute] = OrderedDict()

    def __len__(self) -> int:
        return len(self._minutes)

    def check(self, name: str, rates: Rates, now: float) -> None:
        """Refuses one who has nothing left; takes nothing.

        Args:
            name: Who asks.
            rates: What it may use.
            now: Seconds.

        Raises:
            RateLimited: A bucket is empty; says until when.
        """
        minute = self._minute(name, rates, now)
        for bucket, amount, what in (
            (minute.requests, rates.requests_per_minute, "make {} requests a minute"),
            (minute.tokens, rates.tokens_per_minute, "use {} tokens a minute"),
        ):
            wait_s = bucket.wait_s(now) if bucket is not None else 0.0
            if wait_s > 0:
                raise RateLimited(f"this {self._whose} may {what.format(amount)}", wait_s)

    def take_request(self, name: str, rates: Rates, now: float) -> None:
        """Counts one request."""
        bucket = self._minute(name, rates, now).requests
        if bucket is not None:
            bucket.take(1, now)

    def take_tokens(self, name: str, rates: Rates, count: int, now: float) -> None:
        """Counts what a request has cost."""
        bucket = self._minute(name, rates, now).tokens
        if bucket is not None:
            bucket.take(count, now)

    def _minute(self, name: str, rates: Rates, now: float) -> _Minute:
        minute = self._minutes.get(name)
        if minute is None or minute.rates != rates:
            requests, tokens = rates.requests_per_minute, rates.tokens_per_minute
            minute = _Minute(
                rates,
                TokenBucket(requests, now) if requests else None,
                TokenBucket(tokens, now) if tokens else None,
            )
            if rates == UNBOUNDED:
                return minute  # nothing to remember
            self._minutes[name] = minute
            if len(self._minutes) > self._max_names:
                self._minutes.popitem(last=False)
        self._minutes.move_to_end(name)
        return minute
