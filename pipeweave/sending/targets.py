"""Checks where requests may go: public addresses, and the networks that DISPATCH_NETWORKS names.

Somebody else says where a request goes, so its address is hostile until it is checked. The check resolves the
host, and the request connects to the address that was checked: a name that resolves to another address a
moment later leads nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from pipeweave.errors import FieldError, TargetRefused
from pipeweave.sending import resolving

Address = IPv4Address | IPv6Address

# A check of an address waits so long (s) for its name: it holds a thread of the API, and is made again by the
# request.
CHECKED_WITHIN_S = 0.5

_HINT = "allow its network with DISPATCH_NETWORKS, e.g. DISPATCH_NETWORKS=private or 10.1.0.0/16"


@dataclass(frozen=True, slots=True)
class Target:
    """An address that requests may be sent to.

    Args:
        host: as the URL names it: for the Host header, and for the certificate of an https URL.
        address: the IP address to connect to.
        path: the path of the base URL, without a slash at its end.
    """

    scheme: str
    host: str
    address: str
    port: int
    path: str

    @property
    def is_loopback(self) -> bool:
        """Whether its requests do not leave this machine."""
        return _plain(self.address).is_loopback

    @property
    def host_header(self) -> str:
        """The Host header of its requests."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == _PORTS[self.scheme] else f"{shown}:{self.port}"


# Services of clouds that trust whoever asks from inside, on addresses that look public or private; and
# networks that lead to whoever runs the tunnel. A range of the setting that names one allows it.
_NEVER = [
    ip_network(each)
    for each in (
        "168.63.129.16/32",  # Azure
        "100.100.100.200/32",  # Alibaba Cloud
        "192.0.0.0/24",  # special purposes of protocols; 192.0.0.192: Oracle Cloud
        "192.88.99.0/24",  # relays of 6to4
        "0.0.0.0/8",
        "fd00:ec2::/32",  # AWS
        "fd20:ce::254/128",  # Google Cloud
        "fd00:42::42/128",  # Scaleway
        "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
        "2001::/32",  # Teredo
    )
]
_NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that a gateway connects to for an IPv6 address: of 6to4 and of NAT64."""
    if not isinstance(address, IPv6Address):
        return None
    if any(address in each for each in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


_PORTS = {"http": 80, "https": 443}


class Networks:
    """The networks that requests may reach.

    Args:
        names: of the setting DISPATCH_NETWORKS: `loopback`, `private` or CIDR.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)
        self._ranges = [ip_network(each) for each in names if each not in ("loopback", "private")]
        # Most requests of a process go to a few addresses.
        self._is_allowed = lru_cache(1_024)(lambda address: self.allow(_plain(address)))
        self._of_address = lru_cache(1_024)(self._named_by_address)

    def allow(self, address: Address) -> bool:
        """Whether requests may go to this address."""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if any(address in each for each in self._ranges if each.version == address.version):
            return True
        if any(address in each for each in _NEVER if each.version == address.version):
            return False
        inner = _carried(address)
        if inner is not None and not self.allow(inner):
            return False
        if address.is_loopback:
            return "loopback" in self._names
        # Addresses of clouds' metadata services, which hand out credentials, are link-local: never `private`.
        if address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved:
            return inner is not None
        is_site_local = isinstance(address, IPv6Address) and address.is_site_local
        return (address.is_global and not is_site_local) or "private" in self._names

    def resolve(self, base_url: str, tenant: str = "", within_s: float | None = None) -> Target:
        """Resolve the host of a base URL, and check where it leads.

        Args:
            tenant, within_s: as of `resolving.addresses`.

        Raises:
            TargetRefused: it has an address that is not allowed.
            OSError: the host cannot be resolved, or not in time.
        """
        if (known := self._of_address(base_url)) is not None:
            return known
        named = _named(base_url)
        addresses = resolving.addresses(named.host, named.port, tenant, within_s)
        if not all(map(self._is_allowed, addresses)):
            raise _refused(named.host)
        return replace(named, address=addresses[0])

    def _named_by_address(self, base_url: str) -> Target | None:
        """The target of a URL that names an address, which always leads there; None for any other URL, and
        for an address that is not allowed.
        """
        named = _named(base_url)
        is_plain = "%" not in named.host and resolving.is_address(named.host)
        return named if is_plain and self._is_allowed(named.host) else None

    def check(self, base_url: str, field: str = "baseUrl", tenant: str = "") -> None:
        """Check a base URL as far as its host can be resolved here and now.

        Raises:
            TargetRefused: it leads to an address that is not allowed, or has no host.
        """
        try:
            self.resolve(base_url, tenant, CHECKED_WITHIN_S)
        except TargetRefused as error:
            fault = FieldError(field, str(error.detail), "refused", "an address that requests may reach")
            raise TargetRefused(error.detail, errors=[fault], hint=error.hint) from None
        except (OSError, UnicodeError):
            return  # A name that is not known yet: the request will check it.


def path_of(url: str) -> str:
    """The path of a URL, with its query."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _plain(address: str) -> Address:
    # The zone of an IPv6 address says nothing about where it leads.
    return ip_address(address.partition("%")[0])


def _named(base_url: str) -> Target:
    """What a base URL names; its host stands for the address until that is resolved."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)
    return Target(parts.scheme, host, host, port, parts.path.rstrip("/"))


def _refused(host: str) -> TargetRefused:
    # Where a name leads inside a network is not for who named it.
    return TargetRefused(f"{host[:300]} leads to no address that requests may reach", hint=_HINT)
