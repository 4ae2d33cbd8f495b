"""Read and check STORAGE_BACKENDS, and hide its credentials.

No message repeats a given text, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from pipeweave.errors import InvalidId
from pipeweave.ids import check_name
from pipeweave.settings.readers import MASK, UnreadableSetting

# Provider of a storage backend -> the members that its `credentials` must have.
CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    "local": ("basePath",),
    "aws-s3": ("accessKeyId", "secretAccessKey"),
    "minio": ("accessKey", "secretKey"),
    "gcs": ("projectId", "clientEmail", "privateKey"),
}

_BUCKET = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def storage_backends(text: str) -> tuple[Mapping[str, Any], ...]:
    """Read a JSON list of `{id, provider, bucket, …}` with distinct ids and at most one default."""
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise UnreadableSetting('must be JSON such as [{"id": "main", "provider": "local", …}]') from None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UnreadableSetting("must be a JSON list of objects")
    for number, each in enumerate(listed):
        _check_backend(number, each)
    ids = [each["id"] for each in listed]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise UnreadableSetting(f"has the id {twice[0]!r} more than once")
    if sum(each.get("isDefault") is True for each in listed) > 1:
        raise UnreadableSetting("marks more than one backend as isDefault")
    return tuple(listed)


def masked_backends(backends: tuple[Mapping[str, Any], ...]) -> str:
    """Write the backends as JSON with every credential replaced by ***."""
    shown = [
        {
            **each,
            **({"credentials": dict.fromkeys(each["credentials"], MASK)} if "credentials" in each else {}),
        }
        for each in backends
    ]
    return orjson.dumps(shown).decode()


def _check_backend(number: int, backend: Mapping[str, Any]) -> None:
    if not _is_text(backend.get("id")):
        raise UnreadableSetting(f"[{number}].id must be a text")
    _check_name(f"[{number}].id", backend["id"])
    provider = backend.get("provider")
    if not isinstance(provider, str) or provider not in CREDENTIALS:
        raise UnreadableSetting(f"[{number}].provider must be one of {', '.join(CREDENTIALS)}")
    is_emulator = provider == "gcs" and "endpoint" in backend and not backend.get("credentials")
    if not is_emulator:
        _check_credentials(number, provider, backend.get("credentials", {}))
    if provider != "local":
        _check_bucket(number, backend)
    if not isinstance(backend.get("isDefault", False), bool):
        raise UnreadableSetting(f"[{number}].isDefault must be true or false")
    for member in ("tenants", "pipelines"):
        if member in backend:
            _check_names(f"[{number}].{member}", backend[member])


def _check_credentials(number: int, provider: str, credentials: Any) -> None:
    if not isinstance(credentials, dict):
        raise UnreadableSetting(f"[{number}].credentials must be an object")
    for name in CREDENTIALS[provider]:
        if not _is_text(credentials.get(name)):
            what = "the folder of the local backend" if name == "basePath" else f"a text: {provider} needs it"
            raise UnreadableSetting(f"[{number}].credentials.{name} must be {what}")
    if not _is_text(credentials.get("sessionToken", "-")):
        raise UnreadableSetting(f"[{number}].credentials.sessionToken must be a text")


def _check_bucket(number: int, backend: Mapping[str, Any]) -> None:
    if not _is_text(backend.get("bucket")):
        raise UnreadableSetting(f"[{number}].bucket must be a text: {backend['provider']} needs it")
    if not _BUCKET.fullmatch(backend["bucket"]):
        raise UnreadableSetting(
            f"[{number}].bucket must be letters, digits and - . _ between letters or digits"
        )
    if not _is_text(backend.get("region", "-")):
        raise UnreadableSetting(f"[{number}].region must be a text such as us-east-1")
    if backend["provider"] == "minio" or "endpoint" in backend:
        _check_endpoint(number, backend.get("endpoint"))


def _check_endpoint(number: int, endpoint: Any) -> None:
    expected = UnreadableSetting(f"[{number}].endpoint must be a URL such as http://s3.example.com:9000")
    try:
        parts = urlsplit(endpoint if isinstance(endpoint, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise expected
    except ValueError:
        raise expected from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UnreadableSetting(f"[{number}].endpoint must hold no account and no query; use credentials")


def _check_names(place: str, names: Any) -> None:
    if not isinstance(names, list) or not names:
        raise UnreadableSetting(f"{place} must be a list of ids that is not empty")
    for number, name in enumerate(names):
        _check_name(f"{place}[{number}]", name)


def _check_name(place: str, name: Any) -> None:
    try:
        check_name(name if isinstance(name, str) else "", "storage backend")
    except InvalidId as error:
        raise UnreadableSetting(f"{place}: {error.hint or error.title}") from None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
