"""Sign texts that name one attempt, so that whoever repeats one proves that it was given to them."""

from __future__ import annotations

import functools
import hmac
from base64 import urlsafe_b64encode
from typing import Final

from pipeweave.key_ring import first_key, keys_of

# The form of an attempt and of a signature, as parts of a regular expression: characters that are safe in a
# path.
ATTEMPT: Final = r"(?P<task_run>trun_[0-9a-z]{26})\.(?P<attempt>[1-9][0-9]{0,9})"
SIGNATURE: Final = r"(?P<mac>[A-Za-z0-9_-]{22})"


def sign(secret: str, purpose: bytes, text: str) -> str:
    """The signature of a text, 22 characters.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY, of which the first key signs.
        purpose: what the text is for; the signature for another purpose is another one.
    """
    return _signature(first_key(secret), purpose, text)


def signatures(secret: str, purpose: bytes, text: str) -> tuple[str, ...]:
    """The signatures of a text by each of the keys: what was signed may have been by an earlier one."""
    return tuple(_signature(each, purpose, text) for each in keys_of(secret))


def is_signed(secret: str, purpose: bytes, text: str, signature: str) -> bool:
    """Whether a signature is that of a text, by any of the keys."""
    made = signatures(secret, purpose, text)
    return any([hmac.compare_digest(signature, each) for each in made])


def _signature(key: str, purpose: bytes, text: str) -> str:
    made = hmac.digest(_derived(key, purpose), text.encode(), "sha256")
    return urlsafe_b64encode(made[:16]).decode().rstrip("=")


@functools.lru_cache(256)
def _derived(key: str, purpose: bytes) -> bytes:
    return hmac.digest(key.encode(), purpose, "sha256")
