"""Where workers are, as a resolver without a network says."""

import logging

import pytest

from outrider.discovery import Discovery, DnsName, parse_name
from tests.fakes.dns import FakeDns

pytestmark = pytest.mark.asyncio

NAME = DnsName("verify.svc", 5, "tcp://")


async def test_fixed_addresses_are_not_looked_up_and_come_once() -> None:
    discovery = Discovery(["b:2", "a:1", "b:2"], FakeDns())
    assert await discovery.find() == ["b:2", "a:1"]


async def test_a_name_stands_for_every_address_behind_it() -> None:
    dns = FakeDns(verify=["10.0.0.2", "10.0.0.1", "10.0.0.2", "fd00::1"])
    found = await Discovery(["ipc:///x", NAME], dns).find()
    assert found == ["ipc:///x", "tcp://10.0.0.1:5", "tcp://10.0.0.2:5", "tcp://[fd00::1]:5"]


async def test_what_is_known_stays_while_a_name_has_no_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dns = FakeDns(draft=["10.0.0.9"])
    other = DnsName("draft.svc", 7)
    discovery = Discovery([NAME, other], dns)
    with caplog.at_level(logging.WARNING):
        assert await discovery.find() == ["10.0.0.9:7"]
        dns.addresses = {"verify": ["10.0.0.1"], "draft": ["10.0.0.8"]}
        assert await discovery.find() == ["tcp://10.0.0.1:5", "10.0.0.8:7"]
        dns.addresses = {"draft": ["10.0.0.7"]}
        for _ in range(3):
            assert await discovery.find() == ["tcp://10.0.0.1:5", "10.0.0.7:7"]
    assert [record.getMessage() for record in caplog.records] == [
        "dns:verify.svc:5 cannot be looked up: no such name; 0 known stay",
        "dns:verify.svc:5 cannot be looked up: no such name; 1 known stay",
    ]


async def test_a_name_that_cannot_exist_is_nobody() -> None:
    assert await Discovery([parse_name("dns:a..b:5")]).find() == []


async def test_the_system_is_asked_where_nobody_else_is() -> None:
    names = [parse_name("dns:127.0.0.1:5"), parse_name("dns:[::1]:6", "tcp://")]
    assert await Discovery(names).find() == ["127.0.0.1:5", "tcp://[::1]:6"]
