"""Speaks with a box, without ever waiting for it longer than its call may take.

The box may say anything, at any time, and nothing. What it says is read frame by frame and bounded; meanwhile
the time of the call, the processor time of the process and the relays of its connections are looked after.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from pipeweave.box.frames import RAW, BadFrame, FrameReader, json_frame, raw_frame, read_json
from pipeweave.box.serving import NO_MEMORY_LEFT
from pipeweave.errors import (
    AttemptTimedOut,
    PipeWeaveError,
    SandboxCpuExceeded,
    SandboxCrashed,
    SandboxMemoryExceeded,
    SandboxOutputTooLarge,
)
from pipeweave.workers.boxes.relays import Relays

_RECEIVED_AT_ONCE = 1024 * 1024
# So long (s) the parent waits at least before it looks at the processor time again.
_LOOK_EVERY_S = 0.005
_ENDED_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a question of a box: a value; and maybe pieces of a file, or a descriptor."""

    value: Any = None
    pieces: Iterator[bytes] | None = None
    descriptor: socket.socket | None = None


class Answering(Protocol):
    """What answers the questions of a call."""

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message that wants no answer: a line of the log, a progress."""

    def answer(self, what: str, arguments: dict[str, Any], pieces: Iterator[bytes]) -> Answered:
        """Answer a question.

        Raises:
            PipeWeaveError: what was asked for is not done; the box is told why.
        """


class Budget:
    """How long a call may take, and how much processor time.

    Args:
        pid: of the process.
        cpu_s: processor time of the call (s).
        seconds: time of the call (s).
    """

    def __init__(self, pid: int, cpu_s: float, seconds: float) -> None:
        # The clock of a process, as clock_getcpuclockid(3) makes it.
        self._clock = (~pid << 3) | 2
        self._cpu_s = cpu_s
        self._seconds = seconds
        self._began = time.clock_gettime(self._clock)
        self._deadline = time.monotonic() + seconds
        self._processors = os.cpu_count() or 1

    @property
    def kernel_limit_s(self) -> int:
        """The processor time of the whole process (s) after which this call is certainly over."""
        return int(self._began + self._cpu_s) + 2

    @property
    def is_over(self) -> bool:
        """Whether the time of the call is over."""
        return time.monotonic() >= self._deadline

    def left(self) -> float:
        """How long (s) it takes at least until one of the limits is reached.

        Raises:
            AttemptTimedOut, SandboxCpuExceeded: one of them is.
        """
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise AttemptTimedOut.after(self._seconds)
        try:
            used = time.clock_gettime(self._clock) - self._began
        except OSError:
            used = 0.0  # the process has ended, which its socket says, too
        if used >= self._cpu_s:
            raise cpu_exceeded(self._cpu_s)
        return min(seconds, max((self._cpu_s - used) / self._processors, _LOOK_EVERY_S))


def cpu_exceeded(cpu_s: float) -> SandboxCpuExceeded:
    """The error of a call that took more than so much processor time (s)."""
    return SandboxCpuExceeded(f"the call took more than {cpu_s:g} s of processor time")


class BoxConversation:
    """The parent's end.

    Attributes:
        relays: of the connections of the box.
    """

    relays: Relays

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
        connection.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self._connection = connection
        self._process = process
        self._reader = FrameReader()
        self._budget: Budget | None = None
        self.selector.register(connection, selectors.EVENT_READ)

    def begin(self, setup: bytes, seconds: float) -> str | None:
        """Have the process confine itself; None, or the reason why it is not confined."""
        self._budget = budget = Budget(self._process.pid, seconds, seconds)
        try:
            self._send(setup)
            message = read_json(*self._next())
        except AttemptTimedOut:
            if not budget.is_over:
                raise  # of the call for which the box is made
            return f"the process did not confine itself within {seconds:g} s"
        except (BadFrame, SandboxCpuExceeded, SandboxCrashed, SandboxMemoryExceeded) as error:
            return f"the process did not confine itself: {error}"
        return None if "confined" in message else str(message.get("unconfined"))[:500]

    def call(
        self, frame: bytes, number: str, answering: Answering, budget: Budget
    ) -> tuple[dict[str, Any], bytes]:
        """Send a call, and answer its questions until it has ended; returns what it said at its end.

        Raises:
            PipeWeaveError: it exceeded a limit, or the process ended.
        """
        self._budget = budget
        try:
            self._send(frame)
            return self._heard(number, answering)
        except BadFrame as error:
            kind = SandboxOutputTooLarge if "too long" in str(error) else SandboxCrashed
            raise kind(f"the process of the sandbox sent what is no answer: {error}") from None

    def _heard(self, number: str, answering: Answering) -> tuple[dict[str, Any], bytes]:
        while True:
            message = read_json(*self._next())
            if "ask" in message:
                self._answer(message, answering)
            elif message.get("out_of_memory") == number:
                raise SandboxMemoryExceeded()
            elif message.get("returned") == number:
                return message, self._next_bytes()
            elif message.get("failed") == number:
                return message, b""
            elif "returned" in message or "failed" in message or "out_of_memory" in message:
                raise BadFrame("an answer came to another call")
            else:
                answering.hear(message)

    def _answer(self, message: dict[str, Any], answering: Answering) -> None:
        asked, what, arguments = message["ask"], message.get("what"), message.get("arguments")
        if not isinstance(what, str) or not isinstance(arguments, dict) or type(asked) is not int:
            raise BadFrame("a question has no subject")
        try:
            answer = answering.answer(what, arguments, iter(self._next_bytes, b""))
        except PipeWeaveError as error:
            failed = {"code": error.code, "detail": error.detail, "hint": error.hint}
            self._send(json_frame({"answer": asked, "error": failed}))
            return
        self._send(json_frame({"answer": asked, "value": answer.value}), answer.descriptor)
        if answer.pieces is not None:
            for each in answer.pieces:
                self._send(raw_frame(each))
            self._send(raw_frame(b""))

    @property
    def is_silent(self) -> bool:
        """Whether the box has said nothing that nobody has heard."""
        if not self._reader.is_empty:
            return False
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Hear no more."""
        self.selector.close()
        self._connection.close()

    def _next_bytes(self) -> bytes:
        kind, content = self._next()
        if kind != RAW:
            raise BadFrame("a message came where bytes were due")
        return content

    def _next(self) -> tuple[bytes, bytes]:
        while (frame := self._reader.next()) is None:
            self._wait(selectors.EVENT_READ)
            try:
                content = self._connection.recv(_RECEIVED_AT_ONCE)
            except BlockingIOError:
                continue
            except ConnectionError:
                content = b""
            if not content:
                raise self._ended()
            self._reader.feed(content)
        return frame

    def _send(self, frame: bytes, descriptor: socket.socket | None = None) -> None:
        """Send a frame. A box that does not take it meanwhile may talk: it is heard later, in bounds."""
        view = memoryview(frame)
        if descriptor is not None:
            with descriptor:
                self._wait(selectors.EVENT_WRITE)
                sent = socket.send_fds(self._connection, [view], [descriptor.fileno()])
            view = view[sent:]
        while view:
            try:
                view = view[self._connection.send(view) :]
            except BlockingIOError:
                self._wait(selectors.EVENT_WRITE)
            except ConnectionError:
                raise self._ended() from None

    def _wait(self, event: int) -> None:
        """Wait until the box has said something, or can hear something; its connections go on meanwhile."""
        assert self._budget is not None
        self.selector.modify(self._connection, event)
        while True:
            is_ready = False
            for key, events in self.selector.select(self._budget.left()):
                if key.fileobj is self._connection:
                    is_ready = True
                else:
                    self.relays.go_on(key, events)
            if is_ready:
                return

    def _ended(self) -> PipeWeaveError:
        """The error of a process that is gone."""
        try:
            code = self._process.wait(_ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            return SandboxCrashed("the process of the sandbox has closed its connection")
        if code == NO_MEMORY_LEFT:
            return SandboxMemoryExceeded()
        if code == -signal.SIGXCPU:
            return SandboxCpuExceeded()
        how = f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
        return SandboxCrashed(f"the process of the sandbox {how}")
