"""Which address a call comes from, behind proxies that are trusted to say so. Policy: no sockets.

`X-Forwarded-For` grows on its right: each proxy writes behind it whom it was called by. So it is
read from the right for as long as the one who wrote is trusted; what stands further left may be
made up.
"""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SITE_BITS = 64  # of an IPv6 address; one client has all addresses of such a network


def read_networks(text: str) -> tuple[Network, ...]:
    """Reads addresses and networks with commas between them.

    Raises:
        ValueError: One is none.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return tuple(ipaddress.ip_network(part, strict=True) for part in parts)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """Whom to count a call for.

    Args:
        peer: Address at the other end of the connection; may be no IP address.
        forwarded_for: Value of X-Forwarded-For; "" where there is none.
        trusted: Networks of proxies that say the truth.

    Returns:
        An IPv4 address, an IPv6 network of one site, or `peer` where that is neither.
    """
    address = _parsed(peer)
    hops = [part.strip() for part in forwarded_for.split(",")] if forwarded_for and trusted else []
    while address is not None and hops and any(address in network for network in trusted):
        before = _parsed(hops.pop())
        if before is None:
            break
        address = before
    return peer if address is None else _name(address)


def grpc_peer_host(peer: str) -> str:
    """The address in gRPC's name of a peer, such as `ipv4:127.0.0.1:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return peer
    host = rest.rpartition(":")[0]
    return host.replace("%5B", "").replace("%5D", "").strip("[]")


def _parsed(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _name(address: Address) -> str:
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, SITE_BITS), strict=False))
