"""Convert the text of an environment variable to a value: one small reader function per kind of value.

A reader raises `UnreadableSetting` with the expected format, and `pipeweave.settings` adds the name of the
variable. No message repeats the text, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_network
from typing import Any
from urllib.parse import unquote, urlsplit

from pipeweave.errors import InvalidId
from pipeweave.ids import check_name
from pipeweave.key_ring import MOST_KEYS, SEPARATOR
from pipeweave.labels import read_labels
from pipeweave.settings.database_hosts import hosts_of, wanted_servers, with_hosts
from pipeweave.settings.sentinels import FORM, is_behind_sentinels, sentinels_of, urls_in

MIN_SECRET_LENGTH = 32
MASK = "***"
# Names of networks in DISPATCH_NETWORKS.
NAMED_NETWORKS = ("loopback", "private")

Reader = Callable[[str], Any]

# Our levels (minimal, normal, detailed), and the names that other programs use for them.
_LEVELS = {
    "minimal": "minimal",
    "warning": "minimal",
    "error": "minimal",
    "normal": "normal",
    "info": "normal",
    "detailed": "detailed",
    "debug": "detailed",
}
_PASSWORD_IN_QUERY = re.compile(r"((?:^|[?&])([a-z_]*password)=)([^&]*)")
_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


class UnreadableSetting(ValueError):
    """The text is not a valid value; the message says what is expected.

    Internal to settings: callers turn it into a FieldError of an InvalidSetting or InvalidInput.
    """


def words(text: str) -> str:
    """Read any text that is not blank."""
    if not text.strip():
        raise UnreadableSetting("must not be empty")
    return text.strip()


def whole(low: int, high: int) -> Reader:
    """Make a reader of whole numbers from `low` to `high`, both included."""

    def read(text: str) -> int:
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit()) or not low <= int(digits) <= high:
            raise UnreadableSetting(f"must be a whole number from {low} to {high}")
        return int(digits)

    return read


def mode(text: str) -> str:
    """Read the mode: standalone (beat runs the tick) or serverless (`POST /api/tick` runs it)."""
    word = text.strip().lower()
    if word not in ("standalone", "serverless"):
        raise UnreadableSetting("must be standalone or serverless")
    return word


def flag(text: str) -> bool:
    """Read true or false, also written 1/0, yes/no, on/off."""
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise UnreadableSetting("must be true or false")
    return word in _TRUE


def log_level(text: str) -> str:
    """Read minimal, normal or detailed; also accepts warning or error, info, and debug for them."""
    level = _LEVELS.get(text.strip().lower())
    if level is None:
        raise UnreadableSetting("must be minimal, normal or detailed")
    return level


def log_levels(text: str) -> tuple[str, ...]:
    """Read `logger=level` pairs, separated by commas, with the levels of `log_level`."""
    levels: dict[str, str] = {}
    for pair in comma_list(text):
        name, _, level = (part.strip() for part in pair.partition("="))
        if not name or any(each.isspace() for each in name):
            raise UnreadableSetting(f"must consist of logger=level pairs, and {pair!r} is none")
        try:
            levels[name] = log_level(level)
        except UnreadableSetting as error:
            raise UnreadableSetting(f"of {name} {error}") from None
    return tuple(f"{name}={level}" for name, level in levels.items())


def secret_key(text: str) -> str:
    """Read a key of at least 32 characters, or several of them, the one in use first."""
    keys = [each.strip() for each in text.split(SEPARATOR)]
    if any(len(each) < MIN_SECRET_LENGTH for each in keys):
        several = "; several are separated by commas, the new one first" if len(keys) > 1 else ""
        raise UnreadableSetting(
            f"must have at least {MIN_SECRET_LENGTH} characters; `openssl rand -hex 32` makes one{several}"
        )
    if len(keys) > MOST_KEYS:
        raise UnreadableSetting(f"must hold at most {MOST_KEYS} keys")
    if len(set(keys)) < len(keys):
        raise UnreadableSetting("must not hold one key twice")
    return SEPARATOR.join(keys)


def comma_list(text: str) -> tuple[str, ...]:
    """Split a text at its commas and strip blanks."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def labels(text: str) -> tuple[str, ...]:
    """Read labels, `name=value`, separated by commas."""
    try:
        return tuple(f"{name}={value}" for name, value in read_labels(comma_list(text)).items())
    except ValueError as error:
        raise UnreadableSetting(str(error)) from None


def origins(text: str) -> tuple[str, ...]:
    """Read browser origins separated by commas (`https://host[:port]`); `*` allows any origin."""
    listed = comma_list(text)
    for origin in listed:
        parts = urlsplit(origin)
        complete = parts.scheme in {"http", "https"} and parts.netloc and not (parts.path or parts.query)
        if origin != "*" and not complete:
            raise UnreadableSetting(
                "must be origins such as https://app.example.com, separated by commas, or *"
            )
    return listed


def url(*schemes: str, shown: Sequence[str] = ()) -> Reader:
    """Make a reader of absolute URLs with one of these schemes; `shown` are those that its messages name, if
    they are others.
    """
    start = f"must be a URL that starts with {_shown(shown or schemes)}"

    def read(text: str) -> str:
        try:
            parts = urlsplit(text.strip())
            _ = parts.port
        except ValueError:
            raise UnreadableSetting(start) from None
        if parts.scheme not in schemes or not (parts.netloc or parts.path.strip("/")):
            raise UnreadableSetting(start)
        return text.strip()

    return read


def _shown(schemes: Sequence[str]) -> str:
    return " or ".join(f"{scheme}://" for scheme in schemes)


def http_url(text: str) -> str:
    """Read an http(s) URL and remove the slash at its end."""
    return str(url("http", "https")(text)).rstrip("/")


_DATABASE_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg2")
# Sessions on these servers could not write.
_NEVER_WRITABLE = ("standby", "prefer-standby", "read-only")


def database_url(text: str) -> str:
    """Read a PostgreSQL URL; `postgres://` and `postgresql+psycopg2://` become `postgresql://`.

    It may name several hosts, in libpq's form or in SQLAlchemy's, and then gets libpq's; unless it says to
    which of them sessions go, they go to the primary.
    """
    scheme, _, rest = text.strip().partition("://")
    if scheme not in _DATABASE_SCHEMES or not rest.strip("/"):
        raise UnreadableSetting(f"must be a URL that starts with {_shown(_DATABASE_SCHEMES)}")
    url = f"postgresql://{rest}"
    try:
        hosts, wanted = hosts_of(url), wanted_servers(url)
    except ValueError:
        raise UnreadableSetting(
            "must be postgresql://user@host:port/database, or with several hosts "
            "postgresql://user@host:port,host:port/database; characters such as / in a password are written "
            "as %2F"
        ) from None
    if not re.search(r"/[^/?#]", rest.partition("?")[0]):
        raise UnreadableSetting("must name the database after the host: postgresql://user@host/database")
    if wanted in _NEVER_WRITABLE:
        raise UnreadableSetting(
            f"must not ask for target_session_attrs={wanted}: PipeWeave writes; ask for primary"
        )
    if len(hosts) == 1:
        return url
    url = with_hosts(url, *hosts)
    if wanted is not None:
        return url
    return f"{url}{'&' if '?' in url else '?'}target_session_attrs=primary"


_BROKER_SCHEMES = ("redis", "rediss", "redis+socket")


def broker_url(text: str) -> str:
    """Read the URL of a Redis or Valkey: of a server over TCP, TLS or a Unix socket, or of sentinels.

    Sentinels get one form, however they are written (`settings/sentinels.py`).
    """
    scheme = text.strip().partition("://")[0]
    if scheme in {"amqp", "amqps", "pyamqp"}:
        raise UnreadableSetting(
            "must be the URL of a Redis or Valkey server (redis://, rediss:// or redis+socket://); RabbitMQ "
            "is not supported"
        )
    if "cluster" in scheme:
        raise UnreadableSetting(
            "must not be a Redis Cluster, which is not supported: a queue is one key, so that one of its "
            f"servers would do all the work; name one server (redis://host:port/0), or sentinels: {FORM}"
        )
    if is_behind_sentinels(text.strip()):
        try:
            return str(sentinels_of(text.strip()))
        except ValueError as error:
            raise UnreadableSetting(str(error)) from None
    if len(urls_in(text)) > 1 or _has_several_hosts(text.strip()):
        raise UnreadableSetting(
            f"must name one server; several, of which one takes over, need sentinels: {FORM}"
        )
    if ";" in text:
        raise UnreadableSetting("must not have a semicolon as it is; in a password it is written as %3B")
    return str(url(*_BROKER_SCHEMES, shown=(*_BROKER_SCHEMES, "sentinel"))(text))


def _has_several_hosts(text: str) -> bool:
    scheme, _, rest = text.partition("://")
    return scheme in _BROKER_SCHEMES and "," in re.split("[/?#]", rest)[0].rpartition("@")[2]


def networks(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of networks: `loopback`, `private`, or CIDR such as 10.1.0.0/16."""
    entries = [each.strip().lower() for each in text.split(",") if each.strip()]
    for each in entries:
        if each not in NAMED_NETWORKS:
            try:
                ip_network(each)
            except ValueError:
                raise UnreadableSetting(
                    "must be networks separated by commas: loopback, private, or CIDR such as 10.1.0.0/16"
                ) from None
    return tuple(dict.fromkeys(entries))


def cidrs(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of networks and addresses, such as 10.1.0.0/16."""
    expected = "must be networks or addresses separated by commas, such as 10.1.0.0/16"
    try:
        return tuple(dict.fromkeys(str(ip_network(each)) for each in comma_list(text)))
    except ValueError:
        raise UnreadableSetting(expected) from None


def one_of(*choices: str) -> Reader:
    """Make a reader of a few words."""

    def read(text: str) -> str:
        if text.strip() not in choices:
            raise UnreadableSetting(f"must be {' or '.join(choices)}")
        return text.strip()

    return read


def tenant(text: str) -> str:
    """Read a tenant's id."""
    try:
        return check_name(text.strip(), "tenant")
    except InvalidId as error:
        raise UnreadableSetting(error.hint or error.detail) from None


# Account, what follows it, and the query. Several hosts are more than Python's own functions can split.
_SECRETS_OF_URL = re.compile(
    r"(?P<head>[^:/?#]+://)(?:(?P<account>[^/?#]*)@)?(?P<place>[^?]*)(?P<query>.*)", re.S
)


def masked_url(text: str) -> str:
    """Replace the password in a URL by ***, both in the account and in the query; in each URL of a list."""
    return ";".join(_masked(each) for each in urls_in(text))


def _masked(text: str) -> str:
    match = _SECRETS_OF_URL.fullmatch(text)
    if match is None:
        return MASK
    account = ""
    if match["account"] is not None:
        user, colon, _ = match["account"].partition(":")
        account = f"{user}{colon}{MASK if colon else ''}@"
    query = _PASSWORD_IN_QUERY.sub(rf"\g<1>{MASK}", match["query"])
    return f"{match['head']}{account}{match['place']}{query}"


def passwords_of(url: str) -> Iterator[str]:
    """The passwords in a URL, or in each URL of a list, as they are written there and as they are."""
    for match in filter(None, map(_SECRETS_OF_URL.fullmatch, urls_in(url))):
        written = [(match["account"] or "").partition(":")[2]]
        written += [each[2] for each in _PASSWORD_IN_QUERY.findall(match["query"])]
        yield from (text for each in written if each for text in (each, unquote(each)))
