"""The sentinels of a broker URL: servers that watch a broker and its replicas, and know which is the primary.

    sentinel://:password@host1:26379,host2:26379,host3:26379/0?master_name=name

Celery's form, one URL for each sentinel and semicolons between them, means the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from pipeweave.settings.database_hosts import Host, host_of

SCHEME = "sentinel"
PORT = 26379
FORM = "sentinel://:password@host:port,host:port,host:port/0?master_name=name"

_CERT_REQS = ("required", "optional", "none")
# With one of these, TLS is spoken: with the sentinels and with the servers that they name.
_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")
_OPTIONS = ("master_name", "sentinel_username", "sentinel_password", *_TLS)
# An account may hold semicolons as they are, so the next URL begins where its scheme does.
_BETWEEN = re.compile(r";(?=\s*[A-Za-z][A-Za-z0-9+.-]*://)")
_ENTRY = re.compile(
    rf"{SCHEME}://(?:(?P<account>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?:/(?P<database>[^/?#]*))?(?:\?(?P<query>.*))?",
    re.S,
)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Sentinels:
    """What a URL says of the sentinels and of the broker behind them.

    Args:
        hosts: the sentinels, at least one.
        master_name: under which they watch the broker.
        account: `user:password` for the broker, percent-encoded; None: it asks for none.
        database: its number.
        own_username: the user of the sentinels themselves.
        own_password: the password of the sentinels themselves; None: they ask for none.
        tls: the options of TLS by their names in redis-py; empty: no TLS.
    """

    hosts: tuple[Host, ...]
    master_name: str
    account: str | None
    database: int
    own_username: str | None
    own_password: str | None
    tls: Mapping[str, str | bool]

    def __str__(self) -> str:
        """The URL in the form of FORM."""
        written = {
            "master_name": self.master_name,
            "sentinel_username": self.own_username,
            "sentinel_password": self.own_password,
            **{name: _shown(value) for name, value in self.tls.items()},
        }
        options = {name: value for name, value in written.items() if value is not None}
        hosts, query = ",".join(map(str, self.hosts)), urlencode(options, quote_via=quote, safe="/")
        return f"{SCHEME}://{self._before_host}{hosts}/{self.database}?{query}"

    @property
    def urls(self) -> list[str]:
        """One URL for each sentinel, as Celery takes them: with neither the options nor the passwords of the
        sentinels.
        """
        return [f"{SCHEME}://{self._before_host}{host}/{self.database}" for host in self.hosts]

    @property
    def _before_host(self) -> str:
        return "" if self.account is None else f"{self.account}@"


def urls_in(text: str) -> list[str]:
    """The URLs of a list with semicolons; a single one as it is."""
    return [each.strip() for each in _BETWEEN.split(text)]


def is_behind_sentinels(url: str) -> bool:
    """Whether a broker URL names sentinels, or a list in which one is."""
    return any(each.partition("://")[0] == SCHEME for each in urls_in(url))


def sentinels_of(url: str) -> Sentinels:
    """Read a URL of sentinels, in either form.

    Raises:
        ValueError: it cannot be used; its text says what was expected, and repeats no secret.
    """
    entries = [_entry(each) for each in urls_in(url)]
    options = _options(each["query"] for each in entries)
    if not options.get("master_name"):
        raise ValueError(f"must name what the sentinels watch, as in their `sentinel monitor`: {FORM}")
    accounts = (each["account"] for each in entries)
    databases = (_database(each["database"]) for each in entries if each["database"])
    return Sentinels(
        hosts=tuple(dict.fromkeys(host for each in entries for host in _hosts(each["hosts"]))),
        master_name=options["master_name"],
        account=_only(accounts, "must have the same user and password in each part, or only in the first"),
        database=_only(databases, "must have the same database in each part, or only in the last") or 0,
        own_username=options.get("sentinel_username"),
        own_password=options.get("sentinel_password"),
        tls=_tls(options),
    )


def _entry(url: str) -> dict[str, str | None]:
    if not url.startswith(f"{SCHEME}://"):
        raise ValueError(f"must not mix sentinel:// with other URLs: {FORM}")
    match = _ENTRY.fullmatch(url)
    if match is None:
        raise ValueError(
            f"must be {FORM}; characters such as / and @ in a password are written as %2F and %40"
        )
    return match.groupdict()


def _hosts(text: str | None) -> Iterator[Host]:
    for each in (text or "").split(","):
        try:
            host = host_of(each, PORT)
        except ValueError:
            raise ValueError(
                f"must name each sentinel as host:port, with a port from 1 to 65535: {FORM}"
            ) from None
        if not host.name:
            raise ValueError(f"must name the host of each sentinel: {FORM}")
        yield host


def _database(text: str | None) -> int:
    if not (text and text.isascii() and text.isdigit()):
        raise ValueError(f"must end with the number of a database, such as /0: {FORM}")
    return int(text)


def _options(queries: Iterable[str | None]) -> dict[str, str]:
    """The options of all parts.

    Raises:
        ValueError: there is no such option, or two parts give different values.
    """
    options: dict[str, str] = {}
    for name, value in (pair for query in queries for pair in parse_qsl(query or "", keep_blank_values=True)):
        if name not in _OPTIONS:
            nearest = get_close_matches(name, _OPTIONS, 1)
            known = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(_OPTIONS)}"
            raise ValueError(f"must not have an option that is not known; {known}")
        if options.setdefault(name, value) != value:
            raise ValueError(f"must give {name} once")
    return options


def _tls(options: Mapping[str, str]) -> dict[str, str | bool]:
    said = {name: options[name] for name in _TLS if name in options}
    if not said:
        return {}
    tls: dict[str, str | bool] = {"ssl_cert_reqs": "required", **said}
    if tls["ssl_cert_reqs"] not in _CERT_REQS:
        raise ValueError(f"must have one of {', '.join(_CERT_REQS)} as ssl_cert_reqs")
    if "ssl_check_hostname" in tls:
        if tls["ssl_check_hostname"] not in ("true", "false"):
            raise ValueError("must have true or false as ssl_check_hostname")
        tls["ssl_check_hostname"] = tls["ssl_check_hostname"] == "true"
    return tls


def _shown(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _only(values: Iterable[_Value | None], mistake: str) -> _Value | None:
    """The value that is given; None if none is.

    Raises:
        ValueError: there are several, with this text.
    """
    several = {each for each in values if each is not None}
    if len(several) > 1:
        raise ValueError(mistake)
    return next(iter(several), None)
