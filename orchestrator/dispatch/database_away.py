"""Tells a PostgreSQL that is away from what makes an attempt fail.

Until a dispatch has left, its attempt has not begun: what the absence of PostgreSQL prevents is tried again
later, and uses up no attempt. Storage that is away is a failure of the attempt that does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeweave.errors import Unavailable


class DatabaseAway(Exception):
    """PostgreSQL could not be used before the dispatches left; no attempt has begun."""


@contextmanager
def database_needed() -> Iterator[None]:
    """A block that uses PostgreSQL, and nothing else that may be away.

    Raises:
        DatabaseAway: PostgreSQL cannot be used.
    """
    try:
        yield
    except Unavailable as error:
        raise DatabaseAway(str(error.detail)) from error
