"""Connections to the primary that sentinels name.

An open connection may lead to an old primary that still answers: what is sent there is lost when the
sentinels make it a replica, ten seconds after it is back. So the sentinels are asked again now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from redis import SSLConnection
from redis.exceptions import RedisError
from redis.sentinel import MasterNotFoundError, SentinelConnectionPool, SentinelManagedConnection

# How often (s) a process that uses its connections asks who the primary is; and how long it does not ask when
# no sentinel answers, because that costs a timeout for each of them.
LOOK_EVERY_S = 3.0
_REST_S = 30.0

_Managed: Any = SentinelManagedConnection
_TLS: Any = SSLConnection


class PrimaryConnection(_Managed):  # type: ignore[misc]
    """A connection to the primary of the moment at which it is opened."""

    def connect(self) -> None:
        """Ask the sentinels, one after the other, and connect to the server that they name.

        redis-py's own message has all options of the connection to each sentinel; this one is a line.

        Raises:
            MasterNotFoundError: none of them names one.
            ConnectionError, TimeoutError: of redis-py; the server that they name cannot be used.
        """
        try:
            super().connect()
        except MasterNotFoundError:
            asked, pool = self.connection_pool.sentinel_manager.sentinels, self.connection_pool
            raise MasterNotFoundError(
                f"no primary of {pool.service_name} is named by the sentinels ({len(asked)} were asked)"
            ) from None


class PrimaryTLSConnection(PrimaryConnection, _TLS):  # type: ignore[misc]
    """The same over TLS."""


class PrimaryWatch:
    """Notices that the sentinels name another primary than the one to which a pool's connections lead.

    Args:
        clock: a monotonic clock (s).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_look = clock() + LOOK_EVERY_S

    def has_moved(self, pool: Any) -> bool:
        """Whether there is another primary now; if so, the pool's idle connections are closed, and the others
        when they are given back. Asks at most every LOOK_EVERY_S; False for a pool without sentinels.
        """
        if not isinstance(pool, SentinelConnectionPool) or self._clock() < self._next_look:
            return False
        # Set first: other threads need not ask, too.
        self._next_look = self._clock() + LOOK_EVERY_S
        asked: Any = pool
        before = asked.master_address
        try:
            now = asked.get_master_address()
        except (RedisError, OSError):
            self._next_look = self._clock() + _REST_S
            return False
        return before is not None and bool(before != now)
