"""Makes, writes and reads the Ed25519 keys that bundles are signed with."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeweave.errors import FieldError, InvalidInput

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
KEY_ID_CHARS = 32
"""A key's id: so many hexadecimal digits of the SHA-256 of the public key."""

# A file of a key is far smaller.
_MOST_CHARS = 4_096


def key_id_of(public_key: bytes) -> str:
    """The id of a public key, which nobody can give to another key."""
    return hashlib.sha256(public_key).hexdigest()[:KEY_ID_CHARS]


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature of a message was made with the private key of a public key."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes of the public key of a private key."""
    return key.public_key().public_bytes_raw()


def generate(path: Path) -> bytes:
    """Write a new private key that only its owner can read, and the public key beside it, as `<path>.pub`.

    Returns:
        The public key.

    Raises:
        InvalidInput: one of the files exists, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    beside = path.with_name(f"{path.name}.pub")
    if beside.exists():
        raise InvalidInput(f"{beside} exists", hint="name another file: a key is never replaced")
    _write_new(path, private, 0o600)
    _write_new(beside, public, 0o644)
    return public_bytes(key)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise InvalidInput(f"{path} exists", hint="name another file: a key is never replaced") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(opened, "wb") as file:
        file.write(content)


def read_private(path: Path) -> Ed25519PrivateKey:
    """Read the private key of a PEM file.

    Raises:
        InvalidInput: there is no such key in the file.
    """
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} is not a private Ed25519 key in PEM without a passphrase",
            hint="make one with `pipeweave bundle keygen FILE`",
        )
    return key


def parse_public(text: str) -> bytes:
    """Read a public key in PEM.

    Raises:
        InvalidInput: it is none.
    """
    key = None
    try:
        if len(text) <= _MOST_CHARS:
            key = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        pass
    if not isinstance(key, Ed25519PublicKey):
        problem, expected = "is not a public Ed25519 key", "PEM, as in the .pub file of `bundle keygen`"
        raise InvalidInput(
            f"publicKey {problem}", errors=[FieldError("publicKey", problem, "invalid", expected)]
        )
    return key.public_bytes_raw()
