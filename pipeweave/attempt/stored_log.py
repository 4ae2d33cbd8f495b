"""Store the logs of attempts while they run, from a thread of their own.

An object cannot be appended to, so the log of an attempt is written as a whole when it has grown; it is small
and bounded. A task never waits for its log: lines are dropped, with one warning, when the storage is away or
slower than what is logged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.log_lines import as_json
from pipeweave.size_limits import MAX_LOG_BYTES

log = logging.getLogger(__name__)

# A log that grows is stored at most this often (s).
EVERY_S = 0.5
# Logs that are kept here at once; of more, the oldest are dropped.
MOST_WAITING = 1_000
# The warning about lines that were dropped is repeated at most this often (s).
WARN_EVERY_S = 60.0


class _LogUnderWay:
    __slots__ = ("has_ended", "is_cut", "is_stored", "lines", "size")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.size = 0
        self.is_cut = False
        self.is_stored = False
        self.has_ended = False


class StoredLogs:
    """The logs of the attempts of one process. Its thread starts with the first line.

    Args:
        store: writes the whole log of a place: JSON lines. It may raise any PipeWeaveError.
        every_s: how often a log that grows is stored at most (s).
    """

    def __init__(self, store: Callable[[Any, bytes], None], every_s: float = EVERY_S) -> None:
        self._store = store
        self._every_s = every_s
        self._logs: dict[Any, _LogUnderWay] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._warn_at = 0.0

    def add(self, place: Any, line: bytes, run_id: str) -> None:
        """Add a line to the log of an attempt.

        Args:
            line: with its newline.
            run_id: named by the line that says that the log was cut.
        """
        with self._changed:
            attempt_log = self._logs.get(place) or self._begin(place)
            if attempt_log.is_cut:
                return
            if attempt_log.size + len(line) > MAX_LOG_BYTES:
                attempt_log.is_cut, line = True, _cut(run_id)
            attempt_log.lines.append(line)
            attempt_log.size += len(line)
            attempt_log.is_stored = False

    def _begin(self, place: Any) -> _LogUnderWay:
        if len(self._logs) >= MOST_WAITING:
            del self._logs[next(iter(self._logs))]
            self._warn("the storage is slower than what is logged")
        attempt_log = self._logs[place] = _LogUnderWay()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="stored logs", daemon=True)
            self._thread.start()
        self._changed.notify()
        return attempt_log

    @property
    def is_empty(self) -> bool:
        """Whether no attempt has logged anything that is kept here."""
        return not self._logs

    def has(self, place: Any) -> bool:
        """Whether the attempt has logged a line that is kept here."""
        return place in self._logs

    def end(self, place: Any) -> None:
        """The attempt has ended: store its log at once, and forget it. It must log nothing more."""
        with self._changed:
            if (attempt_log := self._logs.get(place)) is not None:
                attempt_log.has_ended = True
                self._changed.notify()

    def close(self, within_s: float) -> None:
        """Store what there is, for so many seconds at most, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._logs or self._is_closing)
                if not self._logs:
                    return
                self._changed.wait_for(self._is_due, self._every_s)
                taken = self._take()
            for place, content in taken:
                self._put(place, content)

    def _is_due(self) -> bool:
        return self._is_closing or any(each.has_ended for each in self._logs.values())

    def _take(self) -> list[tuple[Any, bytes]]:
        """What must be stored now; the logs of ended attempts leave."""
        taken = [(place, b"".join(each.lines)) for place, each in self._logs.items() if not each.is_stored]
        for place, each in list(self._logs.items()):
            each.is_stored = True
            if each.has_ended or self._is_closing:
                del self._logs[place]
        return taken

    def _put(self, place: Any, content: bytes) -> None:
        try:
            self._store(place, content)
        except PipeWeaveError as error:
            self._warn(error.detail)
        except Exception as error:
            self._warn(repr(error))

    def _warn(self, reason: str) -> None:
        if (now := time.monotonic()) < self._warn_at:
            return
        self._warn_at = now + WARN_EVERY_S
        log.warning("attempt_log.lost", extra={"reason": reason})


def _cut(run_id: str) -> bytes:
    line = {
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": "warn",
        "runId": run_id,
        "message": f"the log is cut here: an attempt stores at most {MAX_LOG_BYTES} bytes",
    }
    return f"{as_json(line)}\n".encode()
