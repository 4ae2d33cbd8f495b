"""Says from where a token may be used: from networks, and by who has a certificate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a request comes from.

    Args:
        address: of the client, behind trusted proxies; None: unknown.
        certificate: SHA-256, as hex, of the client's certificate, which a trusted proxy has verified.
    """

    address: str | None = None
    certificate: str | None = None


def is_within(address: str | None, networks: tuple[str, ...]) -> bool:
    """Whether an address lies in one of these networks; an unknown one lies in none."""
    parsed = address_of(address or "")
    return parsed is not None and any(parsed in network for network in map(_network, networks))


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """An address as networks have it: one of IPv4 that stands in IPv6 is one of IPv4. None: it is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def network_of(text: str) -> str:
    """A network as it is stored: `10.1.0.0/16`; an address stands for itself.

    Raises:
        ValueError: it is none; the message says what is expected.
    """
    expected = "must be a network such as 10.1.0.0/16 or an address"
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        raise ValueError(expected) from None
    if "/" in text and ip_address(text.strip().partition("/")[0]) != network.network_address:
        raise ValueError(f"{expected}; did you mean {network}?")
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped:
        raise ValueError(f"{expected}; write addresses of IPv4 as such")
    return str(network)


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    return ip_network(text)
