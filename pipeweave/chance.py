"""Random bytes of the operating system, fetched for many at a time.

Each look at them is a system call that lets other threads of the process go first, and who only wants an id
waits for those. What is taken here is for ids. `secrets` gives keys and passwords.
"""

from __future__ import annotations

import os
import secrets
from collections import deque

SIZE = 16
_AT_ONCE = 256

# Threads share them: to take one is a single step.
_pieces: deque[bytes] = deque()


def piece() -> bytes:
    """So many random bytes (SIZE) that nobody else has got."""
    try:
        return _pieces.pop()
    except IndexError:
        fresh = os.urandom(SIZE * _AT_ONCE)
        _pieces.extend([fresh[at : at + SIZE] for at in range(SIZE, len(fresh), SIZE)])
        return fresh[:SIZE]


def bits(count: int) -> int:
    """A number of so many random bits."""
    if count > 8 * SIZE:
        return secrets.randbits(count)
    return int.from_bytes(piece()) >> 8 * SIZE - count


# A child would have the same ones as its parent.
os.register_at_fork(after_in_child=_pieces.clear)
