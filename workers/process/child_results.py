"""Reads what the children of a worker tell their parent, each time in one system call.

Celery reads the length of a message, then the message, and then tells the event loop to listen to the pipe to
which it listens already.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

from celery.concurrency import asynpool

# Typed as Any because Celery's stubs lack what is replaced here.
_ResultHandler: Any = asynpool.ResultHandler

# As much as a pipe holds.
AT_ONCE = 65_536

_LENGTH = struct.Struct(">i")


class ChildResults(_ResultHandler):  # type: ignore[misc]
    """Celery's handler of results, which reads all that a child has told so far."""

    def _make_process_result(self, hub: Any) -> Callable[[int], None]:
        def on_readable(fd: int) -> None:
            try:
                content = os.read(fd, AT_ONCE) if fd in self.fileno_to_outq else b""
            except BlockingIOError:
                return
            except OSError:
                content = b""
            if not content:  # the child is gone
                hub.remove_reader(fd)
                return
            messages, begun = _split(content)
            if begun:
                # The loop goes on with it when there is more; when the worker stops, Celery does.
                hub.add_reader(fd, self._rest(hub, fd, begun))
            self._tell(messages)

        return on_readable

    def _rest(self, hub: Any, fd: int, content: bytes) -> Iterator[None]:
        """Read the rest of a message that has come in part, and nothing of the one behind it."""
        while missing := missing_bytes(content):
            try:
                more = os.read(fd, missing)
            except BlockingIOError:
                yield
                continue
            if not more:
                raise EOFError
            content += more
        hub.add_reader(fd, self.handle_event, fd)
        self._tell(_split(content)[0])

    def _tell(self, messages: list[Any]) -> None:
        if not messages:
            return
        first, *others = messages
        try:
            self.on_state_change(pickle.loads(first))
        finally:
            self._tell(others)


def _split(content: bytes) -> tuple[list[Any], bytes]:
    """The whole messages in front, each without its length, and what is left of one that has come in part."""
    messages = []
    while not missing_bytes(content):
        message, content = first_message(content)
        messages.append(message)
    return messages, content


def first_message(content: bytes) -> tuple[memoryview, bytes]:
    """The first message, which is whole, without its length; and what follows it."""
    end = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    return memoryview(content)[_LENGTH.size : end], content[end:]


def missing_bytes(content: bytes) -> int:
    """How many bytes of the first message, or of its length, are missing; 0 when it is whole."""
    if len(content) < _LENGTH.size:
        return _LENGTH.size - len(content)
    return max(0, int(_LENGTH.size + _LENGTH.unpack_from(content)[0] - len(content)))
