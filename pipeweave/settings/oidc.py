"""Read and check the settings of the login by an OpenID provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from pipeweave.errors import FieldError, InvalidId
from pipeweave.ids import check_name
from pipeweave.settings.readers import UnreadableSetting, url

_EXAMPLE = '{"engineers": {"tenants": ["shop"], "scopes": ["write"]}}'
# Workers and schedulers are no people.
_SCOPES = ("read", "approve", "write", "admin")
_PREFIX = "orchestrator:"
MAX_ROLES = 500
# Field -> its variable; the others are needed where there is an issuer.
_NEEDED = {
    "oidc_client_id": "OIDC_CLIENT_ID",
    "oidc_roles": "OIDC_ROLES",
    "secret_key": "PIPEWEAVE_SECRET_KEY",
}


@dataclass(frozen=True, slots=True)
class GroupRole:
    """What people of a group may do: scopes by their full names, in these tenants (`*`: in all)."""

    group: str
    tenants: tuple[str, ...]
    scopes: tuple[str, ...]


def issuer(text: str) -> str:
    """Read the URL of an issuer exactly as it is: a slash at its end belongs to it."""
    read: str = url("https", "http")(text)
    if "?" in read or "#" in read:
        raise UnreadableSetting("must be a URL without ? and #")
    return read


def scopes(text: str) -> str:
    """Read scopes of OAuth, separated by spaces or commas; with spaces between them."""
    listed = text.replace(",", " ").split()
    if not all(each.isascii() and each.isprintable() for each in listed):
        raise UnreadableSetting("must be scopes such as openid email, separated by spaces")
    return " ".join(dict.fromkeys(listed))


def roles(text: str) -> tuple[GroupRole, ...]:
    """Read a JSON object: the name of a group -> its tenants and scopes."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnreadableSetting(f"must be JSON such as {_EXAMPLE}") from None
    if not isinstance(listed, dict) or not 1 <= len(listed) <= MAX_ROLES:
        raise UnreadableSetting(f"must be a JSON object such as {_EXAMPLE}, with {MAX_ROLES} groups at most")
    return tuple(_role(group, entry) for group, entry in listed.items())


def roles_text(roles: Iterable[GroupRole]) -> str:
    """The roles as the variable has them."""
    shown = {
        each.group: {
            "tenants": each.tenants,
            "scopes": [scope.removeprefix(_PREFIX) for scope in each.scopes],
        }
        for each in roles
    }
    return orjson.dumps(shown).decode()


def faults(origins: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is missing next to what is set.

    Args:
        origins: the settings that are set, by field, each with its `value` and the `source` of it.
    """
    if "oidc_issuer" in origins:
        named = origins["oidc_issuer"].source
        for field, name in _NEEDED.items():
            if field not in origins:
                yield FieldError(name, f"is required next to {named}", "required")
    elif (login := origins.get("ui_login")) is not None and login.value == "oidc":
        yield FieldError("OIDC_ISSUER", f"is required where {login.source} is oidc", "required")


def _role(group: str, entry: Any) -> GroupRole:
    if not isinstance(entry, dict) or entry.keys() != {"tenants", "scopes"}:
        raise UnreadableSetting(
            f"of {group[:100]!r} must be an object of tenants and scopes, as in {_EXAMPLE}"
        )
    return GroupRole(group, tuple(_tenants(group, entry["tenants"])), tuple(_scopes(group, entry["scopes"])))


def _tenants(group: str, listed: Any) -> Iterator[str]:
    for each in _texts(group, "tenants", listed):
        try:
            yield each if each == "*" else check_name(each, "tenant")
        except InvalidId as error:
            raise UnreadableSetting(f"of {group[:100]!r}: tenants: {error.hint or error.title}") from None


def _scopes(group: str, listed: Any) -> Iterator[str]:
    for each in _texts(group, "scopes", listed):
        if each.removeprefix(_PREFIX) not in _SCOPES:
            raise UnreadableSetting(f"of {group[:100]!r}: scopes must be of {', '.join(_SCOPES)}")
        yield _PREFIX + each.removeprefix(_PREFIX)


def _texts(group: str, member: str, listed: Any) -> list[str]:
    if not isinstance(listed, list) or not listed or not all(isinstance(each, str) for each in listed):
        raise UnreadableSetting(f"of {group[:100]!r}: {member} must be a list of texts that is not empty")
    return list(dict.fromkeys(listed))
