"""Seal and open storage tokens: encrypted texts that tell a worker where objects are, with credentials.

There are two formats; a worker's registration chooses one:

- `sdk`: base64(iv) `:` base64(tag) `:` base64(ciphertext). The key is the secret itself, repeated or cut to
  32 bytes. Workers of the original Node SDK read only this one, and do not look at its expiry.
- `pbkdf2`: base64url without padding of salt (32 bytes), iv (16), tag (16) and ciphertext. The key is derived
  from the secret and the salt.

Both are AES-256-GCM over UTF-8 JSON: what `content_of` makes, with `iat` and `exp` in seconds since 1970.
"""

from __future__ import annotations

import binascii
import functools
import hashlib
import itertools
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import orjson

from pipeweave.errors import FieldError, InvalidStorageToken, MissingExtra
from pipeweave.key_ring import first_key, keys_of

Format = Literal["sdk", "pbkdf2"]

ITERATIONS = 100_000
KEY_BYTES = 32
SALT_BYTES = 32
TAG_BYTES = 16
# Of the initialisation vectors that are made; when opening, `sdk` takes any length from 8 bytes on.
SDK_IV_BYTES = 12
PBKDF2_IV_BYTES = 16
# Characters; a longer text is refused before anything is computed.
MAX_TOKEN_CHARS = 65_536
# Derived keys that a process keeps: each takes it 20 ms of computing.
KEPT_KEYS = 64

# Where a store has an address that everybody knows, a token names it.
_ENDPOINTS = {"aws-s3": "https://s3.amazonaws.com", "gcs": "https://storage.googleapis.com"}


def content_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What a token says of a backend: {id, provider, endpoint, bucket, region?, credentials}.

    Args:
        entry: of `Backends.entry`.
    """
    provider, credentials = entry["provider"], dict(entry.get("credentials") or {})
    if provider == "local":
        # The worker may run in another folder.
        credentials["basePath"] = str(Path(credentials["basePath"]).absolute())
    return {
        "id": entry["id"],
        "provider": provider,
        "endpoint": entry.get("endpoint") or _ENDPOINTS.get(provider, ""),
        "bucket": entry.get("bucket") or "",
        **({"region": entry["region"]} if entry.get("region") else {}),
        "credentials": credentials,
    }


def seal(content: Mapping[str, Any], secret: str, *, format: Format, now: float, seconds: int | None) -> str:
    """Encrypt the content of a token.

    Args:
        content: of `content_of`.
        secret: what the worker knows, too; its first key encrypts.
        now: s since 1970.
        seconds: how long the token is valid; None for ever.

    Raises:
        MissingExtra: the package cryptography is not installed.
    """
    times = {"iat": int(now)} if seconds is None else {"iat": int(now), "exp": int(now) + seconds}
    plain, secret = orjson.dumps({**content, **times}), first_key(secret)
    if format == "sdk":
        iv = secrets.token_bytes(SDK_IV_BYTES)
        tag, text = _encrypt(_repeated(secret), iv, plain)
        return ":".join(b64encode(each).decode() for each in (iv, tag, text))
    salt, iv = _salt(), secrets.token_bytes(PBKDF2_IV_BYTES)
    tag, text = _encrypt(_derived(secret, salt), iv, plain)
    return urlsafe_b64encode(salt + iv + tag + text).decode().rstrip("=")


def open_sealed(text: str, secret: str, *, now: float) -> dict[str, Any]:
    """Decrypt a token of either format. Its formats have no room for the id of a key: each is tried.

    Args:
        now: s since 1970.

    Raises:
        InvalidStorageToken: it is malformed, was made with another secret or changed, or has expired.
        MissingExtra: the package cryptography is not installed.
    """
    if len(text) > MAX_TOKEN_CHARS:
        raise _invalid("is too long", "malformed")
    content = _content(_opened(text, keys_of(secret)))
    expires = content.get("exp")
    if isinstance(expires, int | float) and expires < now:
        raise _invalid("has expired", "expired")
    return content


def _opened(text: str, keys: Sequence[str]) -> bytes:
    opened = _opened_sdk if ":" in text else _opened_pbkdf2
    for key in keys[:-1]:
        with suppress(InvalidStorageToken):
            return opened(text, key)
    return opened(text, keys[-1])


def _opened_sdk(text: str, secret: str) -> bytes:
    parts = [_decoded(part) for part in text.split(":")]
    if len(parts) != 3 or len(parts[0]) < 8 or len(parts[1]) != TAG_BYTES:
        raise _invalid("is not base64(iv):base64(tag):base64(ciphertext)", "malformed")
    iv, tag, ciphertext = parts
    return _decrypt(_repeated(secret), iv, tag, ciphertext)


def _opened_pbkdf2(text: str, secret: str) -> bytes:
    content = _decoded(text)
    ends = list(itertools.accumulate((SALT_BYTES, PBKDF2_IV_BYTES, TAG_BYTES)))
    if len(content) <= ends[-1]:
        raise _invalid("is too short", "malformed")
    salt, iv, tag, ciphertext = (content[a:b] for a, b in itertools.pairwise([0, *ends, len(content)]))
    return _decrypt(_derived(secret, salt), iv, tag, ciphertext)


def _content(plain: bytes) -> dict[str, Any]:
    try:
        content = orjson.loads(plain)
    except orjson.JSONDecodeError:
        content = None
    expected = {"id": str, "provider": str, "credentials": dict}
    if not isinstance(content, dict) or not all(
        isinstance(content.get(name), kind) for name, kind in expected.items()
    ):
        raise _invalid("does not hold {id, provider, endpoint, bucket, credentials}", "malformed")
    return content


def _decoded(text: str) -> bytes:
    """Base64 of either alphabet, with or without its padding."""
    plain = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("is not base64", "malformed") from None


def _repeated(secret: str) -> bytes:
    """The secret as a key: its bytes over and over, cut to 32."""
    return bytes(itertools.islice(itertools.cycle(secret.encode()), KEY_BYTES))


@functools.lru_cache(maxsize=KEPT_KEYS)
def _derived(secret: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, ITERATIONS, KEY_BYTES)


@functools.cache
def _salt() -> bytes:
    """The salt of the tokens that this process seals: its key is derived once."""
    return secrets.token_bytes(SALT_BYTES)


def _encrypt(key: bytes, iv: bytes, plain: bytes) -> tuple[bytes, bytes]:
    """Tag and ciphertext."""
    sealed: bytes = _cipher(key).encrypt(iv, plain, None)
    return sealed[-TAG_BYTES:], sealed[:-TAG_BYTES]


def _decrypt(key: bytes, iv: bytes, tag: bytes, ciphertext: bytes) -> bytes:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = cipher.decrypt(iv, ciphertext + tag, None)
    except (InvalidTag, ValueError):
        raise _invalid("was made with another secret, or was changed", "forged") from None
    return plain


def _cipher(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingExtra(
            "storage tokens need the package cryptography, which is not installed",
            hint="install it with the extra http: pip install 'pipeweave[http]'",
        ) from None
    return AESGCM(key)


def _invalid(what: str, code: str) -> InvalidStorageToken:
    return InvalidStorageToken(
        f"the storage token {what}",
        errors=[FieldError("storageToken", what, code)],
        hint="worker and orchestrator must have the same secret and about the same time",
    )
