"""A bucket: full at first, even in the long run, and in debt where more was taken."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.token_bucket import TokenBucket


def test_a_minutes_worth_is_there_at_once_and_then_comes_evenly() -> None:
    bucket = TokenBucket(per_minute=60, now=100.0)
    for _ in range(60):
        assert bucket.wait_s(100.0) == 0.0
        bucket.take(1, 100.0)
    assert bucket.wait_s(100.0) == 1.0
    assert bucket.wait_s(100.75) == 0.25
    assert bucket.wait_s(101.0) == 0.0


def test_it_never_holds_more_than_a_minutes_worth() -> None:
    bucket = TokenBucket(per_minute=60, now=0.0)
    bucket.take(60, 1e6)
    assert bucket.wait_s(1e6) == 1.0


def test_a_debt_is_paid_first() -> None:
    bucket = TokenBucket(per_minute=600, now=0.0)
    bucket.take(1799, 0.0)
    assert bucket.wait_s(0.0) == 120.0
    assert bucket.wait_s(119.0) == 1.0
    assert bucket.wait_s(120.0) == 0.0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 500)), max_size=30))
def test_whatever_is_asked_the_rate_holds(asked: list[tuple[int, int]]) -> None:
    """Before each amount given, no more had been given than the time had brought."""
    bucket = TokenBucket(per_minute=120, now=0.0)
    now, taken = 0.0, 0
    for pause, amount in asked:
        now += pause
        if bucket.wait_s(now) == 0.0:
            assert taken <= 120 + 2 * now - 1 + 1e-6
            bucket.take(amount, now)
            taken += amount
