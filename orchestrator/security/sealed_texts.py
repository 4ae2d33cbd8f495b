"""Encrypts the secrets that are stored in rows, and decrypts them.

AES-256-GCM with a key that is computed from PIPEWEAVE_SECRET_KEY. What a secret is for is authenticated with
it, so that one that is copied into another row cannot be read there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pipeweave.errors import FieldError, InvalidSetting

_NONCE_BYTES = 12


def seal(secret_key: str | None, purpose: str, text: str) -> str:
    """Encrypt a text.

    Args:
        secret_key: the deployment's secret.
        purpose: what the text is for, such as the ids of its row.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    sealed = _cipher(secret_key).encrypt(nonce, text.encode(), purpose.encode())
    return base64.b64encode(nonce + sealed).decode()


def open_sealed(secret_key: str | None, purpose: str, sealed: str) -> str:
    """Decrypt a text.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set, or is another one than when the text was stored.
    """
    try:
        content = base64.b64decode(sealed, validate=True)
        plain = _cipher(secret_key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], purpose.encode())
    except (InvalidTag, binascii.Error, ValueError):
        raise InvalidSetting(
            "a stored secret cannot be read",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is not the one that it was stored with", "changed")],
            hint="set the former PIPEWEAVE_SECRET_KEY, or give the trigger a new secret",
        ) from None
    return plain.decode()


def _cipher(secret_key: str | None) -> AESGCM:
    if secret_key is None:
        raise InvalidSetting(
            "PIPEWEAVE_SECRET_KEY is not set, and stored secrets need it",
            errors=[FieldError("PIPEWEAVE_SECRET_KEY", "is required for stored secrets", "required")],
            hint="set it in every process of the deployment, e.g. to the output of `openssl rand -hex 32`",
        )
    return AESGCM(hmac.new(secret_key.encode(), b"pipeweave/stored-secrets", hashlib.sha256).digest())
