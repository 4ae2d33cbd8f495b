"""Read a secret that may be several keys: the first one signs and encrypts, each of them is accepted.

`PIPEWEAVE_SECRET_KEY=new,old` is such a secret, and so is what a worker is given while keys are exchanged.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from typing import Final

MOST_KEYS: Final = 5
SEPARATOR: Final = ","


@functools.lru_cache(64)
def keys_of(secret: str) -> tuple[str, ...]:
    """The keys, the one in use first. A process asks several times for each dispatch."""
    keys = tuple(each.strip() for each in secret.split(SEPARATOR) if each.strip())
    return keys or (secret,)


def first_key(secret: str) -> str:
    """The key in use."""
    return keys_of(secret)[0]


def key_id(key: str) -> str:
    """What names a key without telling it: 8 hexadecimal digits."""
    return hmac.new(key.encode(), b"pipeweave/key-id", hashlib.sha256).hexdigest()[:8]


def derived(secret: str, purpose: str) -> str:
    """The secret of another party, one key of it for each of these: whoever has it cannot compute another.

    Args:
        purpose: whose it is and what for.
    """
    made = (hmac.new(each.encode(), purpose.encode(), hashlib.sha256).hexdigest() for each in keys_of(secret))
    return SEPARATOR.join(made)
