"""The hosts of a PostgreSQL URL. The client library takes several and tries one after the other:

    postgresql://user:password@db1:5432,db2:5432/name?target_session_attrs=primary

Python's own functions for URLs know one host and one port only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

PORT = 5432

_URL = re.compile(
    r"(?P<scheme>[^:/?#]+)://(?:(?P<account>[^/?#]*)@)?(?P<hosts>[^/?#]*)(?P<path>[^?]*)(?:\?(?P<query>.*))?",
    re.S,
)
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:,]*))(?::(?P<port>\d*))?")


@dataclass(frozen=True, slots=True)
class Host:
    """A server of a URL.

    Args:
        name: or an address without brackets, or the folder of a Unix socket; empty for the library's default.
        port: from 1 to 65535.
    """

    name: str
    port: int = PORT

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else quote(self.name, safe="")
        return f"{name}:{self.port}"


def hosts_of(url: str) -> tuple[Host, ...]:
    """The servers of a URL in their order, in libpq's form or in SQLAlchemy's; at least one.

    Raises:
        ValueError: a host or a port cannot be read; the text is not repeated, because it may be a secret.
    """
    parts = _parts(url)
    query = parse_qsl(parts["query"] or "", keep_blank_values=True)
    named = [each for name, value in query if name == "host" for each in value.split(",")]
    ports = [each for name, value in query if name == "port" for each in value.split(",")]
    hosts = [host_of(each) for each in (named or parts["hosts"].split(","))]
    if ports and len(ports) not in (1, len(hosts)):
        raise ValueError("there are not as many ports as hosts")
    if ports:
        each_port = ports * len(hosts) if len(ports) == 1 else ports
        hosts = [Host(host.name, _port(port)) for host, port in zip(hosts, each_port, strict=True)]
    if len(hosts) > 1 and not all(host.name for host in hosts):
        raise ValueError("a host has no name")
    return tuple(hosts)


def with_hosts(url: str, *hosts: Host) -> str:
    """The same URL with these servers, in libpq's form."""
    parts = _parts(url)
    pairs = (parts["query"] or "").split("&")
    rest = "&".join(each for each in pairs if each.partition("=")[0] not in ("host", "port"))
    account = f"{parts['account']}@" if parts["account"] is not None else ""
    options = f"?{rest}" if rest else ""
    return f"{parts['scheme']}://{account}{','.join(map(str, hosts))}{parts['path']}{options}"


def wanted_servers(url: str) -> str | None:
    """Which of the servers a session may be on: the value of `target_session_attrs`; None: not given."""
    query = parse_qsl(_parts(url)["query"] or "", keep_blank_values=True)
    return next((value for name, value in query if name == "target_session_attrs"), None)


def _parts(url: str) -> dict[str, str]:
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("it is no URL")
    return match.groupdict()


def host_of(text: str, usual_port: int = PORT) -> Host:
    """A server as it stands in a URL: `host`, `host:port`, or an address in brackets.

    Raises:
        ValueError: it cannot be read.
    """
    if text.startswith("/"):  # in a query: the folder of a Unix socket
        return Host(text)
    match = _HOST.fullmatch(text)
    if match is None:
        raise ValueError("a host cannot be read")
    return Host(match["address"] or unquote(match["name"]), _port(match["port"] or str(usual_port)))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ValueError("a port is no number from 1 to 65535")
    return int(text)
