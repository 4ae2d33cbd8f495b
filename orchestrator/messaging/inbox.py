"""How a worker's main process takes messages off Redis: through kombu's transport, with a guard in it.

Whoever can write to Redis can put anything into a queue, and Celery's consumer ends its worker at much of it.
So only what is a message of ours reaches Celery, made anew from the few fields that count; everything else
is dropped with a line in the log and never put back, because PostgreSQL has the truth and the tick sends what
is missing. Any other trouble with the broker (it is a replica now, it refuses a command, it is silent) costs
the connection and not the worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import count
from queue import Empty
from typing import Any

import orjson
from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import redis as redis_transport
from kombu.transport import virtual
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from pipeweave.orchestrator.messaging.asking import AskingChannel, register_with_event_loop
from pipeweave.orchestrator.messaging.envelope import (
    KEY_PREFIX,
    Envelope,
    UnreadableMessage,
    decode,
    encode,
    list_key,
    place_of,
)
from pipeweave.orchestrator.messaging.primary_connections import (
    PrimaryConnection,
    PrimaryTLSConnection,
    PrimaryWatch,
)

log = logging.getLogger(__name__)

# A worker that ends puts messages back that it did not begin. After so many times a message is dropped: it
# may be what ends workers.
MOST_PUT_BACK = 3
# The rest of a remote control message that has begun to arrive must come so soon (s).
REST_WITHIN_S = 2.0
# Junk may come in masses: at most one line in this time (s) says how much was dropped.
LOG_EVERY_S = 1.0

_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


class DropLog:
    """Logs what is dropped, in few lines: each says how much was dropped since the line before it.

    Args:
        clock: a monotonic clock (s).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_line = float("-inf")
        self._count = 0

    def dropped(self, queue: str, reason: str) -> None:
        """Note something that was dropped."""
        self._count += 1
        if (now := self._clock()) >= self._next_line:
            self._next_line = now + LOG_EVERY_S
            log.warning("message.dropped", extra={"queue": queue, "reason": reason, "count": self._count})
            self._count = 0


# Typed as Any, because the stubs leave out what is overridden here (tests/database/messaging keeps it true).
_Taken: Any = virtual.QoS


class TakenMessages(_Taken):  # type: ignore[misc]
    """The messages that a channel took and its worker has not begun."""

    def restore_unacked(self) -> list[Any]:
        """Put them back; what the broker does not take is dropped, as the tick sends what is missing.

        kombu by itself would keep such messages for good in files of the temporary folder. The first refusal
        ends it: each try may last as long as the broker's timeout.

        Returns:
            Nothing that failed: with that, kombu writes no files.
        """
        self._flush()
        try:
            while self._delivered:
                self.channel._restore(self._delivered.popitem()[1])
        except Exception:
            log.debug("messages.not_put_back", exc_info=True)
        finally:
            self._delivered.clear()
        return []


class GuardedChannel(AskingChannel):
    """kombu's channel; it delivers messages of ours and nothing else."""

    # Messages are made anew: their delivery tags are the channel's own.
    _tags = count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._drops = DropLog()
        super().__init__(*args, **kwargs)
        # kombu's channel chooses it there, and no earlier.
        self.QoS = TakenMessages

    def _brpop_read(self, **options: Any) -> bool:
        try:
            key, raw = self._reply(**options)
            queue, level = place_of(key.decode(errors="replace"))
            self._queue_cycle.rotate(queue)
            message = decode(raw)
            if isinstance(message, UnreadableMessage):
                self._drops.dropped(KEY_PREFIX + queue, message.reason)
            else:
                self.connection._deliver(_for_celery(message, queue, level, next(self._tags)), queue)
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _reply(self, **options: Any) -> tuple[bytes, bytes]:
        connection = self.client.connection
        try:
            reply = self.client.parse_response(connection, "BRPOP", **options)
        except (RedisError, OSError) as error:
            # The next connection may reach a server that can do it: after a failover the name of the old
            # primary leads to the new one.
            connection.disconnect()
            raise RedisConnectionError(f"the broker refused to hand out messages: {error}") from error
        if not reply:
            raise Empty
        key, raw = reply
        return key, raw

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        """Put a message back that was not worked off, in front of the others, as it was."""
        if (read := message._raw.get("read")) is None:
            return  # a remote control message
        envelope, queue, level = read
        if envelope.put_back >= MOST_PUT_BACK:
            self._drops.dropped(KEY_PREFIX + queue, f"it was put back {envelope.put_back} times")
            return
        again = encode(
            envelope.task,
            envelope.id,
            envelope.arguments,
            queue,
            level,
            envelope.sent,
            put_back=envelope.put_back + 1,
            shown=envelope.shown,
        )
        with self.conn_or_acquire() as client:
            client.rpush(list_key(queue, level), again)

    def _receive_one(self, c: Any) -> Any:
        """Take a remote control message; one that cannot be handled is dropped, too.

        After a reconnect the event loop may tell of an earlier socket with the same number: then nothing is
        there to read.
        """
        if c.connection is None or not c.connection.can_read(timeout=0):
            raise Empty
        try:
            return super()._receive_one(_Bounded(c))
        except (RedisError, OSError, Empty):
            raise
        except Exception as error:
            self._drops.dropped("remote control", f"{type(error).__name__}: {str(error)[:100]}")
            return None


class _Bounded:
    """A subscription whose reads end. By itself it waits for ever for the rest of a message, and its worker
    takes no more work.
    """

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subscription, name)

    def parse_response(self) -> Any:
        return self._subscription.parse_response(block=False, timeout=REST_WITHIN_S)


def _for_celery(envelope: Envelope, queue: str, level: int, tag: int) -> dict[str, Any]:
    """A message as kombu delivers it, with nothing in it that `decode` has not seen.

    Args:
        queue: by its name in Celery; the message names it as rows do.
    """
    return {
        "body": orjson.dumps((envelope.arguments, {}, _NOTHING_FOLLOWS)),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": envelope.task,
            "id": envelope.id,
            "root_id": envelope.id,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "timelimit": (None, None),
            "argsrepr": "",
            "kwargsrepr": "",
            "ignore_result": True,
            "shadow": envelope.shown,
        },
        "properties": {
            "correlation_id": envelope.id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": KEY_PREFIX + queue},
            "priority": level,
            "delivery_tag": str(tag),
        },
        "read": (envelope, queue, level),
    }


def arguments_of(message: Any) -> list[Any] | None:
    """The arguments of a message that this guard has let through, as it has read them; None for another."""
    read = message._raw.get("read")
    return None if read is None else read[0].arguments


class GuardedTransport(redis_transport.Transport):
    """kombu's transport with the guard in its channels."""

    Channel = GuardedChannel

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Have the loop of a worker read and look after this connection."""
        register_with_event_loop(self, super().register_with_event_loop, connection, loop)


class GuardedSentinelChannel(GuardedChannel, redis_transport.SentinelChannel):  # type: ignore[misc]
    """The channel to the primary that sentinels name."""

    connection_class = PrimaryConnection
    connection_class_ssl = PrimaryTLSConnection

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._watch = PrimaryWatch()
        super().__init__(*args, **kwargs)

    def _brpop_start(self, timeout: Any = None) -> None:
        if self._watch.has_moved(self.client.connection_pool):
            raise RedisConnectionError("the sentinels name another primary")
        super()._brpop_start(timeout)


class GuardedSentinelTransport(GuardedTransport):
    """The transport whose channels ask sentinels."""

    Channel = GuardedSentinelChannel
    default_port = redis_transport.SentinelTransport.default_port


class GuardedConnection(Connection):
    """A connection with one of these transports, whichever form of URL it is for."""

    def get_transport_cls(self) -> type[GuardedTransport]:
        return GuardedSentinelTransport if self.transport_cls == "sentinel" else GuardedTransport


class GuardedAMQP(AMQP):
    """What a worker's Celery app makes connections with."""

    Connection = GuardedConnection
