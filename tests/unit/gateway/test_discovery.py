"""Where draft workers are."""

import pytest

from gateway.discovery import WorkerSource, find_workers, parse_sources


def test_fixed_addresses_and_names() -> None:
    sources = parse_sources("a:1, dns:draft.outrider.svc:50052,[::1]:7,")
    assert sources == [
        WorkerSource("a", 1, False),
        WorkerSource("draft.outrider.svc", 50052, True),
        WorkerSource("[::1]", 7, False),
    ]


@pytest.mark.parametrize("text", ["", " , ", "a", "a:0", "a:65536", "dns:", "dns:a", "http://a:1"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be host:port|names no draft worker"):
        parse_sources(text)


@pytest.mark.asyncio
async def test_fixed_addresses_are_not_looked_up_and_come_once() -> None:
    sources = parse_sources("no.such.host:1,b:2,no.such.host:1")
    assert await find_workers(sources) == ["no.such.host:1", "b:2"]


@pytest.mark.asyncio
async def test_a_name_stands_for_every_address_behind_it() -> None:
    found = await find_workers(parse_sources("dns:127.0.0.1:5,dns:[::1]:6"))
    assert found == ["127.0.0.1:5", "[::1]:6"]
