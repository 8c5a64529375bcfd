"""How the setting says where draft workers are."""

import pytest

from gateway.discovery import parse_sources
from outrider.discovery import DnsName


def test_fixed_addresses_and_names() -> None:
    sources = parse_sources("a:1, dns:draft.outrider.svc:50052,[::1]:7,")
    assert sources == ["a:1", DnsName("draft.outrider.svc", 50052), "[::1]:7"]


@pytest.mark.parametrize("text", ["", " , ", "a", "a:0", "a:65536", "dns:", "dns:a", "http://a:1"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be (dns:)?host:port|names no draft worker"):
        parse_sources(text)
