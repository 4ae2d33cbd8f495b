"""How a worker's main process asks Redis for messages: what it does in each round of its event loop.

kombu makes the same command anew for each message, looks up what stays the same through properties in Python,
and tells the system in each round that it listens to a socket to which it listens already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kombu.transport import redis as redis_transport

from pipeweave.orchestrator.messaging.intake import INTAKE, NoQueue

# Typed as Any, because the stubs leave out what is overridden here (tests/database/messaging keeps it true).
_Channel: Any = redis_transport.Channel

# A worker asks for its queues in turns: so many orders of them are kept as commands.
MOST_COMMANDS = 100


class AskingChannel(_Channel):  # type: ignore[misc]
    """kombu's channel, which keeps what it asks with."""

    # kombu's own kind of property takes a lock each time.
    client = cached_property(_Channel.client.func)
    subclient = cached_property(_Channel.subclient.func)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._commands: dict[tuple[Any, ...], Any] = {}
        super().__init__(*args, **kwargs)

    @property
    def active_queues(self) -> list[str]:
        """As kombu's: the queues that messages are asked of, each once."""
        queues, fanout = self._active_queues, self.active_fanout_queues
        if fanout.isdisjoint(queues):
            return list(dict.fromkeys(queues))
        return [each for each in dict.fromkeys(queues) if each not in fanout]

    def _brpop_start(self, timeout: Any = None) -> None:
        asked = self._queue_cycle if INTAKE.is_open else NoQueue()
        if not (queues := asked.consume(len(self.active_queues))):
            return
        connection = self.client.connection
        self._in_poll = connection
        self._brpop_sent_at = time.monotonic()
        seconds = self.brpop_timeout if timeout is None else timeout
        connection.send_packed_command(self._command(connection, queues, seconds or 0))

    def _command(self, connection: Any, queues: list[str], seconds: float) -> Any:
        """What asks for a message of these queues, in the bytes of Redis' protocol."""
        if (command := self._commands.get((seconds, *queues))) is None:
            keys = [self._q_for_pri(queue, level) for level in self.priority_steps for queue in queues]
            words = self.client._prefix_args(["BRPOP", *keys, seconds])
            if len(self._commands) >= MOST_COMMANDS:
                self._commands.clear()
            command = self._commands[seconds, *queues] = connection.pack_command(*words)
        return command


def register_with_event_loop(
    transport: Any, kombus: Callable[[Any, Any], None], connection: Any, loop: Any
) -> None:
    """Have the loop of a worker read and look after a connection, as kombu does, with less.

    Two of kombu's timers are for what is not used here: they would wake an idle worker each second. No queue
    expires, and without acknowledgements nothing is kept that could be restored. Its look before each wait is
    replaced.

    Args:
        kombus: kombu's own way to do it.
    """
    before = set(loop.on_tick)
    kombus(connection, loop)
    cycle = transport.cycle
    for timer in (cycle._binding_expiry_tref, cycle._restore_messages_tref):
        timer.cancel()
    for kombus_look in loop.on_tick - before:
        loop.on_tick.discard(kombus_look)
    loop.on_tick.add(_Look(transport, loop))


class _Look:
    """What is to be done for a transport before the loop waits."""

    def __init__(self, transport: Any, loop: Any) -> None:
        self._cycle = transport.cycle
        self._loop = loop
        self._on_readable = transport.on_readable

    def __call__(self) -> None:
        cycle, readers = self._cycle, self._loop.readers
        cycle.on_poll_start()
        paused = cycle._paused_brpop
        for fd in cycle._fd_to_chan:
            # A socket that was closed is no reader any more, also if another one has its number: kombu takes
            # it out when it loses a connection, and the loop when it begins anew.
            if fd not in paused and readers.get(fd) != (self._on_readable, (fd,)):
                self._loop.add_reader(fd, self._on_readable, fd)
