"""Hands messages to the children of a worker: at once, and without a word back.

Celery's pool waits for another round of the event loop before it writes a message to a child, to learn from
the system that the pipe takes it. And the child says that it has begun before it begins: a message of its own
through another pipe, another round. Here the parent writes in the round in which it has both a message and an
idle child, and takes it for accepted. Celery's way is left for the rare message that the pipe does not take
whole.

What must not get lost is whether a child that died had begun. The child notes the number of the message in a
few bytes of memory that it shares with its parent, where billiard's child would send. A message that was
handed to a child and not begun goes to another child; one that was begun has died with it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import struct
import time
from collections.abc import Callable
from typing import Any

from billiard.pool import ACK
from celery.concurrency import asynpool

from pipeweave.workers.process.child_results import AT_ONCE, ChildResults, first_message, missing_bytes

# Typed as Any because Celery's stubs lack what is replaced here.
_Worker: Any = asynpool.Worker
_Pool: Any = asynpool.AsynPool

_NUMBER = struct.Struct("=q")
_NONE = -1


class BegunMessage:
    """The number of the message that a child has begun last, in memory that it shares with its parent."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NUMBER.size)
        self.note(_NONE)

    def note(self, number: int) -> None:
        """Called by the child."""
        _NUMBER.pack_into(self._memory, 0, number)

    @property
    def number(self) -> int:
        return int(_NUMBER.unpack_from(self._memory)[0])


class QuietQueue:
    """The pipe from a child to its parent. That a message is begun does not go through it."""

    def __init__(self, queue: Any, begun: BegunMessage) -> None:
        self._queue = queue
        self._send = queue._writer.send_bytes
        self._begun = begun

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, message: tuple[int, tuple[Any, ...]]) -> None:
        """Tell the parent something."""
        kind, values = message
        if kind == ACK:
            self._begun.note(values[0])
        else:
            # As the queue does, with a pickler of Python's in place of one that is written in Python.
            self._send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


class MessageReader:
    """Reads messages from the pipe to a child: as a rule, each in one system call."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._content = b""

    def next(self) -> Any:
        """The next message; waits until it is there.

        Raises:
            EOFError: the parent is gone.
        """
        while missing_bytes(self._content):
            more = os.read(self._fd, AT_ONCE)
            if not more:
                raise EOFError
            self._content += more
        message, self._content = first_message(self._content)
        return pickle.loads(message)


class QuietChild(_Worker):  # type: ignore[misc]
    """A child process that notes which message it has begun."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # In the parent, before the fork.
        self.begun = BegunMessage()
        super().__init__(*args, **kwargs)

    def contribute_to_object(self, obj: Any) -> Any:
        """What the process of a child has for its parent."""
        obj.begun = self.begun
        return super().contribute_to_object(obj)

    def on_loop_start(self, pid: int) -> None:
        """Called in the child, before its first message."""
        super().on_loop_start(pid)
        self.outq: Any = QuietQueue(self.outq, self.begun)

    def _make_recv_method(self, conn: Any) -> Callable[[float], tuple[bool, Any]]:
        """How the child receives messages; it waits for as long as it takes."""
        messages = MessageReader(conn._reader.fileno())
        return lambda timeout: (True, messages.next())


class HandingPool(_Pool):  # type: ignore[misc]
    """Celery's pool, which writes each message as soon as a child is idle."""

    Worker = QuietChild
    ResultHandler = ChildResults
    # Puts a message with those that are to be written.
    _quick_put: Any

    def _create_write_handlers(self, hub: Any, *args: Any, **kwargs: Any) -> None:
        super()._create_write_handlers(hub, *args, **kwargs)
        # Celery's ways to do that, and to write to some children.
        self._put_as_celery, self._write_as_celery = self._quick_put, hub.consolidate_callback
        self._quick_put = self._put
        # The event loop calls it in each round, before it waits: children may have become idle.
        self.on_poll_start = self._hand_out

    def _put(self, message: tuple[Any, ...]) -> None:
        self._put_as_celery(message)
        self._hand_out()

    def _hand_out(self) -> None:
        while self.outbound_buffer:
            idle = self._all_inqueues - self._busy_workers - self._active_writes
            idle &= self._fileno_to_inq.keys()
            if not idle:
                return
            self._hand_to(idle.pop())

    def _hand_to(self, fd: int) -> None:
        """Hand the first message to the child behind a pipe."""
        job, child = self.outbound_buffer[0], self._fileno_to_inq[fd]
        if self._write_whole(job, fd):
            self.outbound_buffer.popleft()
            self._busy_workers.add(fd)
            self.write_stats[child.index] += 1
            job._write_to = job._scheduled_for = child
        else:
            job._accepted = False  # Celery would drop it, if it came back from a child that took it badly
            self._write_as_celery([fd])
        if job._write_to is child:
            accept = self._result_handler.state_handlers[ACK]
            accept(job._job, None, time.monotonic(), child.pid, None)

    @staticmethod
    def _write_whole(job: Any, fd: int) -> bool:
        """Write a message if its pipe takes it whole. The system never splits so short a one."""
        header, body, size = job._payload
        if len(header) + size > select.PIPE_BUF:
            return False
        try:
            os.writev(fd, (header, body))
        except OSError:
            return False  # Celery knows what to do
        return True

    # --- a child has ended --------------------------------------------------------------------------------

    def on_job_process_down(self, job: Any, pid_gone: int) -> None:
        """Called for each message of a child that has ended: one that it had not begun goes to another."""
        child = job._write_to
        if job._accepted and child is not None and child.begun.number != job._job:
            job._accepted, job._worker_pid = False, None
        super().on_job_process_down(job, pid_gone)

    def on_job_process_lost(self, job: Any, pid: int, exitcode: int) -> None:
        """Called for each message of a child that has ended, and that nobody has worked off."""
        if job._accepted:
            super().on_job_process_lost(job, pid, exitcode)
