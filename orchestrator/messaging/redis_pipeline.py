"""Sends several Redis commands to the broker in one round trip, over connections that stay open.

The connections are those of Celery's Redis backend, which takes every form of URL that kombu's transport
takes. They come from redis-py's pool, and one that has answered stays at hand: to give it back and to take it
again costs more than a message. redis-py's own pipeline object is not used for the same reason.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from celery import Celery
from celery.backends.redis import SentinelBackend
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.sentinel import MasterNotFoundError, SentinelConnectionPool

from pipeweave import afterwards
from pipeweave.circuit_breaker import CircuitBreaker
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging.primary_connections import (
    PrimaryConnection,
    PrimaryTLSConnection,
    PrimaryWatch,
)
from pipeweave.orchestrator.messaging.sockets import socket_options

Command = tuple[str | bytes | int, ...]

_HINT = "check BROKER_URL and the server"

# How long (s) a new connection may take to answer, after an open one did not.
_PROBE_TIMEOUT_S = 0.5

# A failure within this time (s) is one that nobody waited for.
_AT_ONCE_S = 0.2


class RedisPipeline:
    """A process's connections to its broker.

    Args:
        app: the Celery app whose result backend is the broker itself.
        breaker: makes callers fail at once while the broker is away; by default a new CircuitBreaker.
    """

    def __init__(self, app: Celery, breaker: CircuitBreaker | None = None) -> None:
        self._app = app
        self._breaker = breaker or CircuitBreaker()
        self._watch = PrimaryWatch()
        # Connections that nobody uses at this moment, the last one first. Threads share them: to add one and
        # to take one are each a single step.
        self._at_hand: list[Any] = []

    def execute(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in order and return their replies. NOSCRIPT is a reply; every other error is raised.

        Raises:
            Unavailable: the broker cannot be used, or could not be a moment ago. Commands may have arrived.
        """
        if not commands:
            return []
        self._check_breaker()
        return self._replies(commands, lambda: self._send(commands))

    def post(self, commands: Sequence[Command], failed: Callable[[], None]) -> None:
        """Send commands whose replies nobody needs, and read them when the answer has left that this thread
        owes to a client (`pipeweave/afterwards.py`). Until then it is not known whether they have arrived.

        Args:
            failed: called when the broker could not be used, while its replies are read.

        Raises:
            Unavailable: as `execute`.
        """
        if not commands:
            return
        self._check_breaker()
        try:
            connection = self._send(commands)
        except (RedisError, OSError) as error:
            self._replies(commands, functools.partial(_fail, error))
            return

        def look() -> None:
            try:
                self._replies(commands, lambda: connection)
            except Unavailable:
                failed()

        afterwards.put_off(look)

    def _check_breaker(self) -> None:
        if not self._breaker.may_try():
            raise Unavailable("the broker could not be used a moment ago", hint=_HINT)

    def _replies(self, commands: Sequence[Command], sent: Callable[[], Any]) -> list[Any]:
        """The replies to commands.

        Args:
            sent: gives the connection over which they have been sent, or says why they could not be.
        """
        began = time.monotonic()
        try:
            replies = self._exchange(commands, sent)
        except (RedisError, OSError) as error:
            self._breaker.failed(str(error), at_once=time.monotonic() - began < _AT_ONCE_S)
            # The driver's text names host and port, never the password.
            raise Unavailable(f"the broker cannot be used: {error}", hint=_HINT) from error
        self._breaker.succeeded()
        return replies

    def close(self) -> None:
        """Close every connection; the next command opens one."""
        if "_pool" in self.__dict__:
            self._let_go()
            self._pool.disconnect()

    @cached_property
    def _pool(self) -> Any:
        backend: Any = self._app.backend
        if "path" not in backend.connparams:  # not a Unix socket
            backend.connparams["socket_keepalive_options"] = socket_options()
        if issubclass(type(backend), SentinelBackend):
            is_tls = "connection_class" in backend.connparams
            backend.connparams["connection_class"] = PrimaryTLSConnection if is_tls else PrimaryConnection
        return backend.client.connection_pool

    @cached_property
    def _names_primary(self) -> bool:
        """Whether sentinels name the server. Their pool knows which connections lead to an old primary, so
        each goes back to it.
        """
        return isinstance(self._pool, SentinelConnectionPool)

    def _exchange(self, commands: Sequence[Command], sent: Callable[[], Any]) -> list[Any]:
        """Read the replies over the connection where commands were sent; send them again over a new one if
        the server closed it, is no primary any more, or does not answer over the open one alone.
        """
        try:
            return self._read(sent(), commands)
        except MasterNotFoundError:
            raise  # to ask the sentinels again would be to wait for them again
        except (RedisConnectionError, ReadOnlyError):
            return self._try(commands)
        except RedisTimeoutError as error:
            if not self._answers():
                raise error
            return self._try(commands)

    def _answers(self) -> bool:
        """Whether the server answers over a new connection."""
        pool = self._pool
        timeouts = {
            name: _PROBE_TIMEOUT_S
            for name in ("socket_timeout", "socket_connect_timeout")
            if name in pool.connection_kwargs
        }
        probe = pool.connection_class(**{**pool.connection_kwargs, **timeouts})
        try:
            probe.connect()
            probe.send_command("PING")
            return bool(probe.read_response())
        except (RedisError, OSError):
            return False
        finally:
            probe.disconnect()

    def _try(self, commands: Sequence[Command]) -> list[Any]:
        return self._read(self._send(commands), commands)

    def _send(self, commands: Sequence[Command]) -> Any:
        """Send commands, and return the connection over which their replies come."""
        if self._names_primary:
            self._watch.has_moved(self._pool)
        connection = self._take()
        try:
            connection.send_packed_command(connection.pack_commands(commands))
        except BaseException:
            self._give_up(connection)
            raise
        return connection

    def _give_up(self, connection: Any) -> None:
        # Replies may still arrive: the connection's next user must not read them as its own. What befell it
        # may have befallen the others, too: each of them would cost its next user a timeout.
        connection.disconnect()
        self._pool.release(connection)
        self._let_go()
        self._pool.disconnect(inuse_connections=False)

    def _read(self, connection: Any, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands that were sent over a connection, which is free afterwards."""
        try:
            replies = [_reply(connection) for _ in commands]
        except BaseException:
            self._give_up(connection)
            raise
        if self._names_primary:
            self._pool.release(connection)
        else:
            self._at_hand.append(connection)
        return replies

    def _take(self) -> Any:
        """A connection of this process. Whether the server has closed it meanwhile shows when it is used."""
        mine = os.getpid()
        while self._at_hand:
            try:
                connection = self._at_hand.pop()
            except IndexError:
                break  # another thread has taken the last one
            # What a fork has copied belongs to the parent; redis-py closes this side of it alone.
            if connection.pid == mine:
                return connection
        return self._pool.get_connection()

    def _let_go(self) -> None:
        """Close the connections at hand, and give them back to the pool."""
        while self._at_hand:
            try:
                connection = self._at_hand.pop()
            except IndexError:
                return
            connection.disconnect()
            self._pool.release(connection)


def _fail(error: Exception) -> Any:
    raise error


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except NoScriptError as error:
        return error
