"""The measured rate: nothing said too early, and the newest counts more."""

import pytest

from gateway.service_rate import FEWEST, ServiceRate


def test_nothing_is_said_before_enough_have_ended() -> None:
    rate = ServiceRate(places=4)
    for _ in range(FEWEST - 1):
        rate.ended(2.0)
        assert rate.wait_s(0) is None
    rate.ended(2.0)
    assert rate.wait_s(0) == 0.5
    assert rate.wait_s(7) == 4.0


def test_the_first_ones_count_alike() -> None:
    rate = ServiceRate(places=1)
    for seconds in range(FEWEST):
        rate.ended(float(seconds))
    assert rate.wait_s(0) == pytest.approx((FEWEST - 1) / 2)


def test_it_follows_what_changes() -> None:
    rate = ServiceRate(places=1)
    for seconds in [1.0] * 100 + [9.0] * 100:
        rate.ended(seconds)
    assert 8.9 < (rate.wait_s(0) or 0.0) < 9.0
