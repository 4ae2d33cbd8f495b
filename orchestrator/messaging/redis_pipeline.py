"""Commands to the broker, several in one round trip, over connections that stay open.

They are those of Celery's Redis backend, which takes every form of URL that kombu's transport does. A pool of
redis-py keeps them: safe for threads, new in a child after a fork. Its pipeline object is left out; for one
message, which is the usual case, it costs more than the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from celery import Celery
from redis.exceptions import NoScriptError, RedisError

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging.circuit_breaker import Breaker

Command = tuple[str | bytes | int, ...]

_HINT = "check BROKER_URL and the server"


class Wire:
    """A process's connections to its broker.

    Args:
        app: the Celery app whose result backend is the broker itself.
        breaker: keeps callers from waiting, one after the other, for a broker that is away.
    """

    def __init__(self, app: Celery, breaker: Breaker | None = None) -> None:
        self._app = app
        self._breaker = breaker or Breaker()

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in order; their replies. NOSCRIPT is a reply, every other error is raised.

        Raises:
            Unavailable: the broker cannot be used, or could not a moment ago. What was sent may have arrived.
        """
        if not commands:
            return []
        if not self._breaker.admits():
            raise Unavailable("the broker could not be used a moment ago", hint=_HINT)
        try:
            replies = self._exchange(commands)
        except (RedisError, OSError) as error:
            self._breaker.failed(str(error))
            # The driver's text names host and port, never the password.
            raise Unavailable(f"the broker cannot be used: {error}", hint=_HINT) from error
        self._breaker.succeeded()
        return replies

    def close(self) -> None:
        """Close every connection; the next command opens one."""
        if "_pool" in self.__dict__:
            self._pool.disconnect()

    @cached_property
    def _pool(self) -> Any:
        backend: Any = self._app.backend
        return backend.client.connection_pool

    def _exchange(self, commands: Sequence[Command]) -> list[Any]:
        connection = self._pool.get_connection()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            return [_reply(connection) for _ in commands]
        except BaseException:
            # Replies may still be under way: nobody else may read them as theirs.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except NoScriptError as error:
        return error
