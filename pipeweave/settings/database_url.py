"""The database's URL from its parts, as many hosting platforms give them, and its parts from a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pipeweave.settings.readers import Unreadable, database_url, flag, whole

# Part -> its variables, the first one first.
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
    """A name or an address; one of IPv6 without its brackets. The port is a part of its own."""
    bare = text.strip().removeprefix("[").removesuffix("]")
    try:
        whole_host = urlsplit(f"//[{bare}]" if ":" in bare else f"//{bare}").hostname
    except ValueError:
        whole_host = None
    if not bare or whole_host != bare.lower():
        raise Unreadable("must be a host's name or address, without a port")
    return bare


_READERS: dict[str, Callable[[str], Any]] = {"host": _host, "port": whole(1, 65535), "ssl": flag}


def read_part(part: str, text: str) -> Any:
    """A part's value.

    Raises:
        Unreadable: the text is no such value.
    """
    return _READERS.get(part, str.strip)(text)


def url_of(parts: Mapping[str, Any]) -> str:
    """The URL of these parts; host, name and user are among them."""
    password = ":" + quote(parts["password"], safe="") if "password" in parts else ""
    host = f"[{parts['host']}]" if ":" in parts["host"] else parts["host"]
    account = quote(parts["user"], safe="") + password
    tls = "?sslmode=require" if parts.get("ssl") else ""
    return database_url(
        f"postgresql://{account}@{host}:{parts.get('port', 5432)}/{quote(parts['name'], safe='')}{tls}"
    )


def parts_of(url: str) -> dict[str, Any]:
    """What a URL says of each part."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname or "",
        "port": parts.port or 5432,
        "name": unquote(parts.path.lstrip("/")),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "ssl": parse_qs(parts.query).get("sslmode", [""])[0] in _TLS_MODES,
    }
