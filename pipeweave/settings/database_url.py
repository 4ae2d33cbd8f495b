"""Build the database's URL from the DB_… variables that many hosting platforms set, and split a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pipeweave.settings.database_hosts import PORT, Host, hosts_of
from pipeweave.settings.readers import UnreadableSetting, comma_list, database_url, flag, whole

# Part -> its variables; the first variable that is set counts.
DATABASE_PARTS: dict[str, tuple[str, ...]] = {
    "host": ("DB_HOST",),
    "port": ("DB_PORT",),
    "name": ("DB_NAME", "DB_DATABASE"),
    "user": ("DB_USER", "DB_USERNAME"),
    "password": ("DB_PASS", "DB_PASSWORD"),
    "ssl": ("DB_SSL",),
}
NEEDED = ("host", "name", "user")

_TLS_MODES = {"require", "verify-ca", "verify-full"}


def _host(text: str) -> str:
    """Read a host's name or address. An IPv6 address loses its brackets; a port is refused."""
    bare = text.strip().removeprefix("[").removesuffix("]")
    try:
        whole_host = urlsplit(f"//[{bare}]" if ":" in bare else f"//{bare}").hostname
    except ValueError:
        whole_host = None
    if not bare or whole_host != bare.lower():
        raise UnreadableSetting(
            "must be a host's name or address, without a port, or several of them separated by commas"
        )
    return bare


def _hosts(text: str) -> str:
    """Read one host, or several separated by commas."""
    return ",".join(_host(each) for each in text.split(","))


_port = whole(1, 65535)


def _ports(text: str) -> str:
    """Read one port, or one for each host separated by commas; several equal ones become one."""
    ports = [str(_port(each)) for each in comma_list(text)] or [str(_port(text))]
    return ports[0] if len(set(ports)) == 1 else ",".join(ports)


_READERS: dict[str, Callable[[str], Any]] = {"host": _hosts, "port": _ports, "ssl": flag}


def read_part(part: str, text: str) -> Any:
    """Read the value of one part.

    Raises:
        Unreadable: the text is not a valid value.
    """
    return _READERS.get(part, str.strip)(text)


def url_of(parts: Mapping[str, Any]) -> str:
    """Build the URL; `parts` must include host, name and user.

    Raises:
        Unreadable: there are several ports, but not as many as hosts.
    """
    password = ":" + quote(parts["password"], safe="") if "password" in parts else ""
    names, ports = parts["host"].split(","), parts.get("port", str(PORT)).split(",")
    if len(ports) not in (1, len(names)):
        raise UnreadableSetting("must be one port, or as many as DB_HOST names hosts")
    each_port = ports * len(names) if len(ports) == 1 else ports
    hosts = ",".join(str(Host(name, int(port))) for name, port in zip(names, each_port, strict=True))
    account = quote(parts["user"], safe="") + password
    tls = "?sslmode=require" if parts.get("ssl") else ""
    return database_url(f"postgresql://{account}@{hosts}/{quote(parts['name'], safe='')}{tls}")


def parts_of(url: str) -> dict[str, Any]:
    """Split a URL that `database_url` has read into its parts."""
    account, _, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    user, _, password = account.partition(":")
    path, _, query = url.partition("://")[2].partition("/")[2].partition("?")
    hosts = hosts_of(url)
    return {
        "host": ",".join(each.name.lower() for each in hosts),
        "port": _ports(",".join(str(each.port) for each in hosts)),
        "name": unquote(path),
        "user": unquote(user),
        "password": unquote(password),
        "ssl": parse_qs(query).get("sslmode", [""])[0] in _TLS_MODES,
    }
