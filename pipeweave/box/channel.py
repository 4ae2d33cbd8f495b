"""The box's end of its conversation: what it says, and what it asks for and waits for."""

from __future__ import annotations

import array
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pipeweave.box import frames
from pipeweave.errors import (
    InvalidInput,
    InvalidSetting,
    LimitExceeded,
    NotFound,
    SandboxRefused,
    Unavailable,
)

_RECEIVED_AT_ONCE = 1024 * 1024


_ERRORS = {each.code: each for each in (InvalidInput, InvalidSetting, LimitExceeded, NotFound, Unavailable)}


class Channel:
    """A socket to the parent. Threads may speak at the same time; of questions there is one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = frames.FrameReader()
        self._descriptors: list[int] = []
        self._speaking = threading.Lock()
        self._asking = threading.RLock()
        self._questions = 0

    def say(self, message: Any) -> None:
        """Send a message."""
        frame = frames.json_frame(message)
        with self._speaking:
            self._connection.sendall(frame)

    def say_with(self, message: Any, content: bytes) -> None:
        """Send a message and the bytes that belong to it."""
        head, body = frames.json_frame(message), frames.raw_frame(content)
        with self._speaking:
            self._connection.sendall(head)
            self._connection.sendall(body)

    def hear(self) -> dict[str, Any]:
        """The next message; ends the process when the parent is gone."""
        return frames.read_json(*self._next())

    def hear_bytes(self) -> bytes:
        """The bytes that belong to the last message."""
        kind, content = self._next()
        if kind != frames.RAW:
            raise frames.BadFrame("a message came where bytes were due")
        return content

    def ask(self, what: str, **arguments: Any) -> Any:
        """Ask the parent, and wait for its answer.

        Raises:
            PipeWeaveError: it did not do it, and says why.
        """
        with self._asking:
            return self._ask(what, arguments)

    def ask_with(self, what: str, pieces: Iterator[bytes], **arguments: Any) -> Any:
        """Ask, and send pieces of a file with the question."""
        with self._asking:
            return self._ask(what, arguments, pieces)

    def ask_for_pieces(self, what: str, take: Callable[[bytes], object], **arguments: Any) -> Any:
        """Ask for a file, and hand its pieces to `take` as they arrive."""
        with self._asking:
            answer = self._ask(what, arguments)
            for each in iter(self.hear_bytes, b""):
                take(each)
            return answer

    def ask_for_descriptor(self, what: str, **arguments: Any) -> int:
        """Ask for an open file descriptor."""
        with self._asking:
            self._ask(what, arguments)
            return self._descriptors.pop(0)

    def _ask(self, what: str, arguments: dict[str, Any], pieces: Iterable[bytes] = ()) -> Any:
        self._questions += 1
        number = self._questions
        self.say({"ask": number, "what": what, "arguments": arguments})
        for each in pieces:
            with self._speaking:
                self._connection.sendall(frames.raw_frame(each))
        while (answer := self.hear()).get("answer") != number:
            pass
        if (error := answer.get("error")) is not None:
            raise _ERRORS.get(error["code"], SandboxRefused)(error["detail"], hint=error.get("hint"))
        return answer.get("value")

    def _next(self) -> tuple[bytes, bytes]:
        while (frame := self._reader.next()) is None:
            content, ancillary, _, _ = self._connection.recvmsg(_RECEIVED_AT_ONCE, socket.CMSG_SPACE(4))
            for level, kind, sent in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    received = array.array("i")
                    received.frombytes(sent[: len(sent) // 4 * 4])
                    self._descriptors += received
            if not content:
                os._exit(0)
            self._reader.feed(content)
        return frame
