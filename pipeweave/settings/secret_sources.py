"""Read and check SECRETS: where the processes that call tasks find the values of `${secret.NAME}`.

No message repeats a text of the setting, because it may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from pipeweave.errors import InvalidId
from pipeweave.ids import check_name
from pipeweave.settings.readers import MASK, UnreadableSetting

NAME: Final = "SECRETS"
FILE, ENV, AWS, VAULT = "file", "env", "aws-secrets-manager", "vault"
EVERY_TENANT: Final = "*"

_EXAMPLE = '[{"provider": "file", "path": "/run/secrets"}]'
_OF_ALL = {"provider": "text", "prefix": "text", "tenants": "texts", "hosts": "texts"}
# The members of each provider: what they hold, and those that it needs.
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    FILE: {"path": "text"},
    ENV: {"variables": "text"},
    AWS: {"region": "text", "path": "text", "endpoint": "url", "credentials": "object"},
    VAULT: {
        "address": "url",
        "mount": "text",
        "path": "text",
        "namespace": "text",
        "token": "text",
        "tokenFile": "text",
    },
}
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    FILE: ("path",),
    ENV: (),
    AWS: ("region",),
    VAULT: ("address",),
}
# What is a secret itself.
_HIDDEN = ("token", "credentials")
# Variables that another program, or PipeWeave, may have secrets in are out of reach.
DEFAULT_VARIABLES: Final = "SECRET_"


def secret_sources(text: str) -> tuple[Mapping[str, Any], ...]:
    """Read a JSON list of sources, in the order in which they are asked."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnreadableSetting(f"must be JSON such as {_EXAMPLE}") from None
    if not isinstance(listed, list):
        raise UnreadableSetting(f"must be a JSON list such as {_EXAMPLE}")
    return tuple(_checked(f"[{number}]", each) for number, each in enumerate(listed))


def masked_sources(sources: tuple[Mapping[str, Any], ...]) -> str:
    """Write the sources as JSON with every secret in them replaced by ***."""
    shown = [{key: MASK if key in _HIDDEN else value for key, value in each.items()} for each in sources]
    return orjson.dumps(shown).decode()


def _checked(place: str, entry: Any) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise UnreadableSetting(f"{place} must be an object, as in {_EXAMPLE}")
    provider = entry.get("provider")
    members = _MEMBERS.get(provider) if isinstance(provider, str) else None
    if members is None:
        raise UnreadableSetting(f"{place}.provider must be one of {', '.join(_MEMBERS)}")
    allowed = {**_OF_ALL, **members}
    for key, value in entry.items():
        if key not in allowed:
            raise UnreadableSetting(f"{place} of {provider} may have {', '.join(allowed)}, and has another")
        _check_kind(f"{place}.{key}", value, allowed[key])
    for key in _NEEDED[str(provider)]:
        if not entry.get(key):
            raise UnreadableSetting(f"{place}.{key} is required for {provider}")
    return _of_provider(place, str(provider), entry)


def _of_provider(place: str, provider: str, entry: dict[str, Any]) -> Mapping[str, Any]:
    if provider == ENV:
        # Variables have no folders: an entry without tenants is that of a deployment with one.
        entry = {"variables": DEFAULT_VARIABLES, "tenants": ["default"], **entry}
        if not entry["variables"]:
            raise UnreadableSetting(f"{place}.variables must not be empty: it is how the variables begin")
    if provider == VAULT and ("token" in entry) == ("tokenFile" in entry):
        raise UnreadableSetting(f"{place} must have either token or tokenFile")
    if provider == AWS and "credentials" in entry:
        keys = {"accessKeyId", "secretAccessKey"}
        if not keys <= entry["credentials"].keys() <= {*keys, "sessionToken"}:
            raise UnreadableSetting(f"{place}.credentials must have accessKeyId and secretAccessKey")
    for tenant in entry.get("tenants", ()):
        _check_tenant(place, tenant)
    return entry


def _check_tenant(place: str, tenant: str) -> None:
    try:
        if tenant != EVERY_TENANT:
            check_name(tenant, "tenant")
    except InvalidId as error:
        raise UnreadableSetting(f"{place}.tenants: {error.hint or error.title}") from None


def _check_kind(place: str, value: Any, kind: str) -> None:
    if kind == "texts":
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise UnreadableSetting(f"{place} must be a list of texts that is not empty")
    elif kind == "object":
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise UnreadableSetting(f"{place} must be an object of texts")
    elif not isinstance(value, str):
        raise UnreadableSetting(f"{place} must be a text")
    elif kind == "url" and not _is_http(value):
        raise UnreadableSetting(f"{place} must be a URL that starts with http:// or https://")


def _is_http(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
