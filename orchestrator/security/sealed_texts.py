"""Encrypts the secrets that are stored in rows, and decrypts them.

AES-256-GCM with a key that is computed from PIPEWEAVE_SECRET_KEY. What a secret is for is authenticated with
it, so that one that is copied into another row cannot be read there.

`1:<key id>:<base64 of nonce and ciphertext>`. A text without the first two parts is of the first form, which
named no key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.key_ring import first_key, key_id, keys_of

_NONCE_BYTES = 12
_FORM = "1"


def seal(secret_key: str | None, purpose: str, text: str) -> str:
    """Encrypt a text with the first key.

    Args:
        secret_key: the deployment's PIPEWEAVE_SECRET_KEY.
        purpose: what the text is for, such as the ids of its row.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    key, nonce = first_key(_required(secret_key)), secrets.token_bytes(_NONCE_BYTES)
    sealed = _cipher(key).encrypt(nonce, text.encode(), purpose.encode())
    return f"{prefix(key)}{base64.b64encode(nonce + sealed).decode()}"


def prefix(secret_key: str) -> str:
    """How texts begin that are sealed with the first key: rows are looked for by it."""
    return f"{_FORM}:{key_id(first_key(secret_key))}:"


def open_sealed(secret_key: str | None, purpose: str, sealed: str) -> str:
    """Decrypt a text, with whichever of the keys it was sealed.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set, or lacks the key that the text was sealed with.
    """
    keys, content = keys_of(_required(secret_key)), sealed
    if ":" in sealed:
        form, named, content = (*sealed.split(":", 2), "")[:3]
        keys = tuple(each for each in keys if form == _FORM and key_id(each) == named)
    try:
        return _opened(keys, purpose, base64.b64decode(content, validate=True))
    except (InvalidTag, binascii.Error, ValueError):
        raise InvalidSetting(
            "a stored secret cannot be read",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "lacks the key that it was stored with", "changed")],
            hint="add the former key behind the new one, or give the trigger a new secret",
        ) from None


def _opened(keys: Sequence[str], purpose: str, content: bytes) -> str:
    nonce, sealed = content[:_NONCE_BYTES], content[_NONCE_BYTES:]
    for each in keys:
        try:
            return _cipher(each).decrypt(nonce, sealed, purpose.encode()).decode()
        except InvalidTag:
            continue
    raise InvalidTag


def _required(secret_key: str | None) -> str:
    if secret_key is None:
        raise InvalidSetting(
            "PIPEWEAVE_SECRET_KEY is not set, and stored secrets need it",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is required for stored secrets", "required")],
            hint="set it in every process of the deployment, e.g. to the output of `openssl rand -hex 32`",
        )
    return secret_key


def _cipher(key: str) -> AESGCM:
    return AESGCM(hmac.new(key.encode(), b"pipeweave/stored-secrets", hashlib.sha256).digest())
