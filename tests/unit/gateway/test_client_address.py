"""Who is counted: the peer, or whom trusted proxies were called by."""

import pytest

from gateway.client_address import client_address, grpc_peer_host, read_networks

PROXIES = read_networks("10.0.0.0/8, 192.0.2.7,fd00::/8")


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "counted"),
    [
        ("203.0.113.5", "", "203.0.113.5"),
        ("203.0.113.5", "198.51.100.1", "203.0.113.5"),  # nobody whom we trust says so
        ("10.1.2.3", "198.51.100.1", "198.51.100.1"),
        ("10.1.2.3", "1.1.1.1, 198.51.100.1", "198.51.100.1"),  # 1.1.1.1 is made up, or may be
        ("10.1.2.3", "198.51.100.1,192.0.2.7 , 10.9.9.9", "198.51.100.1"),
        ("10.1.2.3", "10.0.0.1", "10.0.0.1"),
        ("10.1.2.3", "", "10.1.2.3"),
        ("10.1.2.3", "nonsense", "10.1.2.3"),
        ("10.1.2.3", "1.1.1.1, nonsense, 192.0.2.7", "192.0.2.7"),
        ("fd00::1", "198.51.100.1", "198.51.100.1"),
        ("2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.5", "", "203.0.113.5"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("fe80::1%eth0", "", "fe80::/64"),
        ("unix:", "198.51.100.1", "unix:"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_address_that_is_counted(peer: str, forwarded_for: str, counted: str) -> None:
    assert client_address(peer, forwarded_for, PROXIES) == counted


def test_by_default_nobody_is_trusted() -> None:
    assert read_networks("") == ()
    assert client_address("127.0.0.1", "198.51.100.1", ()) == "127.0.0.1"


@pytest.mark.parametrize(
    "text", ["10.0.0.1/8", "10.0.0.0/33", "proxy.example", "10.0.0.1;10.0.0.2"]
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"IPv4 or IPv6|host bits"):
        read_networks(text)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:50051", "127.0.0.1"),
        ("ipv6:%5B::1%5D:50051", "::1"),
        ("ipv6:[2001:db8::1]:50051", "2001:db8::1"),
        ("unix:/tmp/socket", "unix:/tmp/socket"),
        ("", ""),
    ],
)
def test_grpcs_names_of_peers(peer: str, host: str) -> None:
    assert grpc_peer_host(peer) == host
