"""Define SecretProvider: one place where values of secrets are."""

from __future__ import annotations

from typing import Protocol

from pipeweave.errors import SecretDenied

MAX_SECRET_BYTES = 65_536
"""The largest value of a secret (bytes of UTF-8): as large as AWS Secrets Manager keeps one."""


class SecretProvider(Protocol):
    """One place where values of secrets are. Several threads may ask it."""

    def get(self, place: str) -> str | None:
        """The value at a place; None if there is none.

        Args:
            place: `NAME`, or `<tenant>/NAME`.

        Raises:
            SecretDenied: this process may not read it, or it is no secret that could be used.
            Unavailable: the provider cannot be reached, or does not answer in time.
        """


def readable(content: bytes, place: str) -> str:
    """The text of a value.

    Raises:
        SecretDenied: it is too large, or no text.
    """
    if len(content) > MAX_SECRET_BYTES:
        raise SecretDenied(f"the secret {place!r} has more than {MAX_SECRET_BYTES:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretDenied(f"the secret {place!r} is not UTF-8 text", hint="store it in base64") from None
    if "\0" in text:
        raise SecretDenied(f"the secret {place!r} holds U+0000")
    return text
