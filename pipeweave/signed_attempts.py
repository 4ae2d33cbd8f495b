"""Sign texts that name one attempt, so that whoever repeats one proves that it was given to them."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from typing import Final

# The form of an attempt and of a signature, as parts of a regular expression: characters that are safe in a
# path.
ATTEMPT: Final = r"(?P<task_run>trun_[0-9a-z]{26})\.(?P<attempt>[1-9][0-9]{0,9})"
SIGNATURE: Final = r"(?P<mac>[A-Za-z0-9_-]{22})"


def sign(secret: str, purpose: bytes, text: str) -> str:
    """The signature of a text, 22 characters.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY.
        purpose: what the text is for; the signature for another purpose is another one.
    """
    key = hmac.digest(secret.encode(), purpose, hashlib.sha256)
    return urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)[:16]).decode().rstrip("=")


def is_signed(secret: str, purpose: bytes, text: str, signature: str) -> bool:
    """Whether a signature is that of a text."""
    return hmac.compare_digest(signature, sign(secret, purpose, text))
