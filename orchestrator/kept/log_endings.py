"""Keeps the ends of logs that were read last: a page that shows many logs is shown again and again, and
nothing is added to most of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from pipeweave.orchestrator.kept import stored_logs
from pipeweave.orchestrator.kept.stored_logs import LogPlace
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.storage import Backends

# Bytes that one process keeps.
MOST_BYTES = 20_000_000
# Storage is not asked again so soon about the log of an attempt that is over (s).
ASKED_AFTER_S = 60.0
# What an entry takes beside its bytes, so that empty ones are bounded, too.
_BYTES_OF_AN_ENTRY = 500

_Key = tuple[UUID, int, int]


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a stored log.

    Args:
        size: of the whole log (bytes).
        begin: where the content begins in it.
    """

    size: int
    begin: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _KeptEnd:
    end: LogEnd
    is_over: bool
    at: float

    @property
    def weight(self) -> int:
        return len(self.end.content) + _BYTES_OF_AN_ENTRY


class LogEndings:
    """The ends of the logs that were read last in this process.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _KeptEnd] = OrderedDict()
        self._bytes = 0

    def end_of(self, backends: Backends, place: LogPlace, most: int) -> LogEnd:
        """The last `most` bytes of a log. Call it without a connection.

        Raises:
            Unavailable: storage cannot be reached.
        """
        key = (place.task_run_id, place.attempt, most)
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known.is_over and self._clock() - known.at < ASKED_AFTER_S:
            return known.end
        end = _read_end(backends, place, most, known.end if known else None)
        self._keep(key, _KeptEnd(end, place.is_over, self._clock()))
        return end

    def _keep(self, key: _Key, entry: _KeptEnd) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._bytes += entry.weight - (before.weight if before else 0)
            self._kept[key] = entry
            while self._bytes > MOST_BYTES:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.weight


def _read_end(backends: Backends, place: LogPlace, most: int, known: LogEnd | None) -> LogEnd:
    """The end of a log; `known` again, if the log has not grown."""
    stored_log = stored_logs.find(backends, place)
    if stored_log is None:
        return LogEnd(0, 0, b"")
    storage, info = stored_log
    if known is not None and known.size == info.size:
        return known
    begin = max(0, info.size - most)
    with storage.open(info.path, start=begin, length=most) as pieces:
        return LogEnd(info.size, begin, b"".join(pieces))


def lines_of_end(end: LogEnd, *, is_over: bool) -> Iterator[tuple[int, Document]]:
    """The whole lines of the end of a log, each with the byte at which it begins in the log."""
    at, lines = end.begin, end.content.split(b"\n")
    for number, content in enumerate(lines):
        is_cut = number == 0 and end.begin > 0
        is_whole = number < len(lines) - 1 or is_over or stored_logs.is_object(content)
        if content.strip() and is_whole and not is_cut:
            yield at, stored_logs.parsed_line(content)
        at += len(content) + 1
