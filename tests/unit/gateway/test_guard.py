"""The way in: keys, rates and quotas together; a refusal costs nothing, an answer what it cost."""

import pytest

from gateway.client_address import read_networks
from gateway.guard import Approach, Caller, Guard, GuardLimits
from gateway.quotas import Quotas
from gateway.rate_limits import Rates
from outrider.api_keys import Access, Permission, make_key
from outrider.key_file import key_line, read_api_keys
from outrider.protocol.errors import (
    ErrorCode,
    Forbidden,
    OutriderError,
    QuotaSpent,
    RateLimited,
    Unauthenticated,
)
from outrider.telemetry.metrics import GatewayMetrics

KEYS = {name: make_key() for name in ("alice", "bob", "scraper")}
LINES = (
    key_line("alice", KEYS["alice"], ["requests_per_minute=2", "tokens_per_minute=0"]),
    key_line("bob", KEYS["bob"], ["tokens_per_day=50"]),
    key_line("scraper", KEYS["scraper"], ["may=metrics"]),
)
LIMITS = GuardLimits(
    key_rates=Rates(requests_per_minute=5, tokens_per_minute=100),
    address_rates=Rates(requests_per_minute=10, tokens_per_minute=1000),
    proxies=read_networks("10.0.0.1"),
)


class Door:
    """A guard whose clocks stand still until they are moved."""

    def __init__(self, has_keys: bool = True) -> None:
        self.now = 0.0
        self.quotas = Quotas()
        self.metrics = GatewayMetrics()
        access = Access(read_api_keys("\n".join(LINES)) if has_keys else ())
        clock = lambda: self.now  # noqa: E731
        self.guard = Guard(access, self.metrics, LIMITS, self.quotas, clock, clock)

    def ask(
        self, name: str, peer: str = "192.0.2.1", permission: Permission = Permission.GENERATE
    ) -> Caller:
        return self.guard.admit(Approach(f"Bearer {KEYS.get(name, '?')}", peer), permission)

    def refused(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        return self.metrics.registry.get_sample_value("outrider_requests_total", labels) or 0.0


def test_who_asks_and_where_from() -> None:
    door = Door()
    caller = door.ask("alice", "2001:db8::1")
    assert (caller.tenant, caller.address) == ("alice", "2001:db8::/64")
    assert caller.line == "key alice"
    approach = Approach(f"Bearer {KEYS['alice']}", "10.0.0.1", "198.51.100.9")
    assert door.guard.admit(approach, Permission.MODELS).address == "198.51.100.9"


def test_a_keys_own_rate_wins_over_everybodys() -> None:
    door = Door()
    for _ in range(2):
        door.ask("alice")
    with pytest.raises(RateLimited, match="this key may make 2 requests") as caught:
        door.ask("alice")
    assert caught.value.retry_after_s == 30.0
    for _ in range(5):
        door.ask("bob")
    with pytest.raises(RateLimited, match="this key may make 5 requests"):
        door.ask("bob")
    assert door.refused("rate_limit_exceeded") == 2


def test_tokens_are_charged_to_the_key_and_the_address() -> None:
    door = Door()
    bob = door.ask("bob")
    door.guard.charge(bob, 49)
    door.ask("bob")
    door.guard.charge(bob, 60)
    with pytest.raises(QuotaSpent, match="50 tokens of today"):
        door.ask("bob")
    door.guard.charge(door.ask("alice"), 2000)  # has no bound of its own
    with pytest.raises(RateLimited, match="this address may use 1000 tokens"):
        door.ask("alice")
    door.ask("alice", "192.0.2.2")


def test_a_refusal_costs_nothing() -> None:
    door = Door()
    alice = door.ask("alice")
    door.guard.charge(alice, 1001)
    for _ in range(100):
        with pytest.raises(RateLimited, match="this address"):
            door.ask("alice")
    door.ask("alice", "192.0.2.2")  # the second of its two requests a minute
    with pytest.raises(RateLimited, match="this key"):
        door.ask("alice", "192.0.2.2")


def test_only_what_generates_is_limited() -> None:
    door = Door()
    for _ in range(100):
        door.ask("alice", permission=Permission.METRICS)
        door.ask("scraper", permission=Permission.METRICS)
    with pytest.raises(Forbidden):
        door.ask("scraper")
    with pytest.raises(Unauthenticated):
        door.ask("nobody", permission=Permission.MODELS)
    assert (door.refused("permission_denied"), door.refused("unauthenticated")) == (1, 1)


def test_without_keys_addresses_are_limited_and_wait_in_lines_of_their_own() -> None:
    door = Door(has_keys=False)
    for _ in range(10):
        caller = door.ask("")
    assert (caller.tenant, caller.line) == ("", "address 192.0.2.1")
    with pytest.raises(OutriderError) as caught:
        door.ask("")
    assert caught.value.code is ErrorCode.RESOURCE_EXHAUSTED
    door.guard.charge(caller, 5000)
    assert door.quotas.usage == {}
    door.ask("", "192.0.2.2")
