"""Read and check ADAPTER_SECRETS: the secrets that actions send to other systems, each to its own hosts.

No message repeats a given text, because it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from pipeweave.errors import FieldError, InvalidId, InvalidSetting
from pipeweave.ids import check_name
from pipeweave.settings.readers import MASK, UnreadableSetting

NAME = "ADAPTER_SECRETS"
_EXAMPLE = '[{"name": "shop", "value": "Bearer …", "hosts": ["api.shop.example"]}]'
# A shorter text could stand by chance in an answer, where secrets are replaced.
MIN_SECRET_CHARS = 8
_MEMBERS = {"name", "value", "hosts"}


def adapter_secrets(text: str) -> tuple[Mapping[str, Any], ...]:
    """Read a JSON list of `{name, value, hosts}` with distinct names."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnreadableSetting(f"must be JSON such as {_EXAMPLE}") from None
    if not isinstance(listed, list):
        raise UnreadableSetting(f"must be a JSON list such as {_EXAMPLE}")
    for number, each in enumerate(listed):
        _check(number, each)
    names = [each["name"] for each in listed]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise UnreadableSetting(f"has the name {twice[0]!r} more than once")
    return tuple(listed)


def masked_secrets(secrets: Iterable[Mapping[str, Any]]) -> str:
    """Write the secrets as JSON with every value replaced by ***."""
    return orjson.dumps([{**each, "value": MASK} for each in secrets]).decode()


def secret_for(secrets: Iterable[Mapping[str, Any]], name: str, host: str) -> str:
    """The value of a secret, if it may be sent to a host.

    Raises:
        InvalidSetting: there is no such secret, or it is for other hosts.
    """
    entry = next((each for each in secrets if each["name"] == name), None)
    if entry is None:
        raise _refusal(f"there is no secret {name[:100]!r}", f"add it to {NAME} of the workers")
    if host.lower() not in (each.lower() for each in entry["hosts"]):
        raise _refusal(f"the secret {name!r} is not for {host[:200]}", "its `hosts` alone get it")
    return str(entry["value"])


def _refusal(detail: str, hint: str) -> InvalidSetting:
    return InvalidSetting(detail, errors=[FieldError(NAME, detail, "unknown")], hint=hint)


def _check(number: int, entry: Any) -> None:
    if not isinstance(entry, dict) or entry.keys() != _MEMBERS:
        raise UnreadableSetting(f"[{number}] must be an object of name, value and hosts, as in {_EXAMPLE}")
    name, value, hosts = entry["name"], entry["value"], entry["hosts"]
    try:
        check_name(name if isinstance(name, str) else "", "secret")
    except InvalidId as error:
        raise UnreadableSetting(f"[{number}].name: {error.hint or error.title}") from None
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        raise UnreadableSetting(f"[{number}].value must be a text of printable ASCII characters")
    if len(value.strip()) < MIN_SECRET_CHARS:
        raise UnreadableSetting(f"[{number}].value must have at least {MIN_SECRET_CHARS} characters")
    if not isinstance(hosts, list) or not hosts or not all(isinstance(each, str) and each for each in hosts):
        raise UnreadableSetting(f"[{number}].hosts must be a list of host names that is not empty")
