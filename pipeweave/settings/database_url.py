"""Build the database's URL from the DB_… variables that many hosting platforms set, and split a URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from pipeweave.settings.readers import Unreadable, database_url, flag, whole

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
        raise Unreadable("must be a host's name or address, without a port")
    return bare


_READERS: dict[str, Callable[[str], Any]] = {"host": _host, "port": whole(1, 65535), "ssl": flag}


def read_part(part: str, text: str) -> Any:
    """Read the value of one part.

    Raises:
        Unreadable: the text is not a valid value.
    """
    return _READERS.get(part, str.strip)(text)


def url_of(parts: Mapping[str, Any]) -> str:
    """Build the URL; `parts` must include host, name and user."""
    password = ":" + quote(parts["password"], safe="") if "password" in parts else ""
    host = f"[{parts['host']}]" if ":" in parts["host"] else parts["host"]
    account = quote(parts["user"], safe="") + password
    tls = "?sslmode=require" if parts.get("ssl") else ""
    return database_url(
        f"postgresql://{account}@{host}:{parts.get('port', 5432)}/{quote(parts['name'], safe='')}{tls}"
    )


def parts_of(url: str) -> dict[str, Any]:
    """Split a URL into its parts."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname or "",
        "port": parts.port or 5432,
        "name": unquote(parts.path.lstrip("/")),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "ssl": parse_qs(parts.query).get("sslmode", [""])[0] in _TLS_MODES,
    }
