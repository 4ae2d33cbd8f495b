"""Turns what tasks print into log lines, which carry the ids of their task run."""

from __future__ import annotations

import io
import logging
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TextIO

from pipeweave import masking

# A longer line is logged in pieces (characters).
LONGEST_LINE = 8_000

# The beginnings of lines of one of many calls in a thread, by stream; None where a thread has one call.
_of_call: ContextVar[dict[str, str] | None] = ContextVar("beginnings of lines", default=None)


class PrintedLines(io.TextIOBase):
    """A text stream in place of `sys.stdout` or `sys.stderr`: each line becomes a line of the log.

    Args:
        original: the stream that is replaced. `buffer` and `fileno` are still its own: bytes, and what other
            programs write, go there as they are.
        name: of the logger.
        level: of the log lines.
    """

    def __init__(self, original: TextIO, name: str, level: int) -> None:
        self._original = original
        self._name = name
        self._log = logging.getLogger(name)
        self._level = level
        # Each thread has its own beginning of a line, and a mark that it is logging already.
        self._mine = threading.local()

    @property
    def original(self) -> TextIO:
        """The stream that is replaced."""
        return self._original

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._original.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._original.errors

    @property
    def buffer(self) -> Any:
        return self._original.buffer

    def fileno(self) -> int:
        return self._original.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if getattr(self._mine, "is_logging", False):
            # The logging itself reports an error here.
            return self._original.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        *lines, rest = (self._rest + text).split("\n")
        if len(rest) >= LONGEST_LINE:
            begun, rest = _cut(rest)
            lines += begun
        self._rest = rest
        for line in lines:
            self._say(line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: a progress bar flushes each piece of its line."""

    def close(self) -> None:
        """Do nothing: the calls after this one print, too."""

    def __getattr__(self, name: str) -> Any:
        # `name`, `reconfigure` and other members of a text file that a TextIOBase lacks.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._original, name)

    @property
    def _rest(self) -> str:
        """The line that this call or thread has begun."""
        of_call = _of_call.get()
        return getattr(self._mine, "rest", "") if of_call is None else of_call.get(self._name, "")

    @_rest.setter
    def _rest(self, rest: str) -> None:
        if (of_call := _of_call.get()) is None:
            self._mine.rest = rest
        else:
            of_call[self._name] = rest

    def end_line(self) -> bool:
        """Log the line that this call or thread has begun. Returns whether the tasks' code has disabled the
        logger.
        """
        of_call = _of_call.get()
        # As `_rest`: this is called twice for each call of a task, of which most print nothing.
        if getattr(self._mine, "rest", "") if of_call is None else of_call.get(self._name):
            rest, self._rest = self._rest, ""
            self._say(rest)
        return self._log.disabled

    def _say(self, line: str) -> None:
        # A progress bar rewrites its line after each carriage return: a terminal shows the last state.
        line = _hidden(line.rstrip("\r").rpartition("\r")[2])
        if not line.strip():
            return
        if self._log.disabled:
            # By `logging.config.dictConfig` of the call: the end of the call enables it again.
            with suppress(OSError, ValueError):
                self._original.write(f"{line}\n")
                self._original.flush()
            return
        self._mine.is_logging = True
        try:
            for start in range(0, len(line), LONGEST_LINE):
                self._log.log(self._level, "%s", line[start : start + LONGEST_LINE])
        finally:
            self._mine.is_logging = False


def _cut(rest: str) -> tuple[list[str], str]:
    """The part of a long line that is logged before its end comes, if there is one, and what is left."""
    rest = _hidden(rest)
    whole = max(len(rest) - _held(), 0) // LONGEST_LINE * LONGEST_LINE
    return ([rest[:whole]] if whole else []), rest[whole:]


def _hidden(line: str) -> str:
    # Before it is logged in pieces: the pieces of a secret would not be known as one.
    masks = masking.current()
    return line if masks is None else masks.text(line)


def _held() -> int:
    """How many characters at the end of a line may be the beginning of a secret."""
    masks = masking.current()
    return 0 if masks is None or not masks.longest else masks.longest - 1


# What `capture` made.
_captured: list[tuple[str, PrintedLines]] = []


def capture() -> None:
    """Log from now on what this process prints: stdout at INFO, stderr at WARNING."""
    for name, level in (("stdout", logging.INFO), ("stderr", logging.WARNING)):
        if not isinstance(stream := getattr(sys, name), PrintedLines):
            stream = PrintedLines(stream, f"pipeweave.{name}", level)
            _captured.append((name, stream))
            setattr(sys, name, stream)


def release() -> None:
    """Let this process print again as it did before `capture`."""
    while _captured:
        name, stream = _captured.pop()
        setattr(sys, name, stream.original)


def begin_own_lines() -> None:
    """At the start of one of many calls in this thread: keep what it prints apart, in its context."""
    _of_call.set({})


def end_lines() -> None:
    """At the end of a call: log the lines that this thread has begun to print, and take the place of streams
    that the call has put into `sys` and left there.
    """
    is_disabled = False
    for name, stream in _captured:
        is_disabled = stream.end_line() or is_disabled
        setattr(sys, name, stream)
    if is_disabled:
        enable_loggers()


def enable_loggers() -> None:
    """Enable PipeWeave's loggers: `logging.config.dictConfig` in the tasks' code disables all that exist."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] == "pipeweave" and isinstance(logger, logging.Logger):
            logger.disabled = False
