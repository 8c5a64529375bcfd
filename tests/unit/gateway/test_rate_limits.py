"""Limits a minute: by name, checked before anything is taken, in a bounded table."""

import pytest

from gateway.rate_limits import RateLimits, Rates
from outrider.protocol.errors import RateLimited

RATES = Rates(requests_per_minute=2, tokens_per_minute=100)


def ask(limits: RateLimits, name: str, now: float, rates: Rates = RATES) -> None:
    limits.check(name, rates, now)
    limits.take_request(name, rates, now)


def test_requests_are_counted_by_name() -> None:
    limits = RateLimits("key", 10)
    ask(limits, "a", 0.0)
    ask(limits, "a", 0.0)
    with pytest.raises(RateLimited, match="this key may make 2 requests a minute") as caught:
        ask(limits, "a", 15.0)
    assert caught.value.retry_after_s == 15.0
    ask(limits, "b", 15.0)
    ask(limits, "a", 30.0)


def test_tokens_are_taken_at_the_end_and_waited_for_before_the_next() -> None:
    limits = RateLimits("address", 10)
    ask(limits, "a", 0.0)
    limits.take_tokens("a", RATES, 199, 0.0)
    with pytest.raises(RateLimited, match="this address may use 100 tokens a minute") as caught:
        ask(limits, "a", 0.0)
    assert caught.value.retry_after_s == 60.0
    ask(limits, "a", 60.0)


def test_a_check_takes_nothing() -> None:
    limits = RateLimits("key", 10)
    for _ in range(10):
        limits.check("a", RATES, 0.0)


def test_without_bounds_nothing_is_remembered() -> None:
    limits = RateLimits("key", 10)
    for _ in range(1000):
        ask(limits, "a", 0.0, Rates())
    limits.take_tokens("a", Rates(), 10**9, 0.0)
    assert len(limits) == 0
    limits.take_request("b", Rates(requests_per_minute=1), 0.0)
    limits.check("b", Rates(tokens_per_minute=1), 0.0)


def test_new_rates_begin_anew() -> None:
    limits = RateLimits("key", 10)
    limits.take_request("a", Rates(1), 0.0)
    with pytest.raises(RateLimited):
        limits.check("a", Rates(1), 0.0)
    limits.check("a", Rates(3), 0.0)


def test_the_table_is_bounded_and_forgets_the_longest_silent() -> None:
    limits = RateLimits("address", 3)
    once = Rates(requests_per_minute=1)
    for name in ("a", "b", "c", "a", "d"):
        limits.take_request(name, once, 0.0)
    assert len(limits) == 3
    for name in ("a", "c", "d"):
        with pytest.raises(RateLimited):
            limits.check(name, once, 0.0)
    limits.check("b", once, 0.0)
    for number in range(1000):
        limits.take_request(str(number), once, 0.0)
    assert len(limits) == 3
