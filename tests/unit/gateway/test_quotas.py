"""Quotas: tokens of a day and tokens ever, counted for keys."""

import pytest

from gateway.quotas import DAY_S, Quotas, Usage
from outrider.api_keys import Allowance, ApiKey
from outrider.protocol.errors import QuotaSpent

NOON = 20_000 * DAY_S + DAY_S / 2
KEY = ApiKey("alice", b"", allowance=Allowance(tokens_per_day=100, tokens_total=250))


def test_a_day_ends_at_midnight() -> None:
    quotas = Quotas()
    quotas.take("alice", 99, NOON)
    quotas.check(KEY, NOON)
    quotas.take("alice", 5, NOON)
    with pytest.raises(QuotaSpent, match="its 100 tokens of today") as caught:
        quotas.check(KEY, NOON)
    assert caught.value.retry_after_s == DAY_S / 2
    quotas.check(KEY, NOON + DAY_S / 2)
    assert quotas.usage == {"alice": Usage(20_000, 104, 104)}


def test_what_was_used_ever_is_not_given_again() -> None:
    quotas = Quotas({"alice": Usage(19_000, 90, 249)})
    quotas.check(KEY, NOON)
    quotas.take("alice", 1, NOON)
    assert quotas.usage == {"alice": Usage(20_000, 1, 250)}
    with pytest.raises(QuotaSpent, match="its 250 tokens") as caught:
        quotas.check(KEY, NOON + 100 * DAY_S)
    assert caught.value.retry_after_s is None


def test_a_key_without_a_quota_is_only_counted() -> None:
    quotas = Quotas()
    quotas.take("bob", 10**12, NOON)
    quotas.check(ApiKey("bob", b""), NOON)
    assert quotas.usage["bob"].total_tokens == 10**12
