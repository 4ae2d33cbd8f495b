"""Connections to the primary that sentinels name; they say in one line that none is named.

redis-py's own message has all options of the connection to each sentinel.
"""

from __future__ import annotations

from typing import Any

from redis import SSLConnection
from redis.sentinel import MasterNotFoundError, SentinelManagedConnection

_Managed: Any = SentinelManagedConnection
_TLS: Any = SSLConnection


class PrimaryConnection(_Managed):  # type: ignore[misc]
    """A connection to the primary of the moment at which it is opened."""

    def connect(self) -> None:
        """Ask the sentinels, one after the other, and connect to the server that they name.

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
