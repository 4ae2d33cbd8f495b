"""Notes failed logins in the audit: one row for all that fail within ten minutes, whoever sends them.

Who has no token must not be able to fill the table, or to make the database write at will: the row is
written with the first failure, and anew with the second, the fourth, the eighth and so on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.security import audit
from pipeweave.orchestrator.store import Database

log = logging.getLogger(__name__)

VERB = "sessions.login_failed"
# Seconds whose failures are one row; each server process has its own.
WITHIN_S = 600.0
# A row names so many addresses that failed first.
MAX_ADDRESSES = 10

_NOBODY = audit.Actor("session", "nobody")


@dataclass
class _Row:
    until: float
    note: audit.Note
    failures: int = 0
    written: int = 0
    addresses: list[str] = field(default_factory=list)

    @property
    def after(self) -> dict[str, Any]:
        return {"failures": self.failures, "addresses": list(self.addresses)}


class FailedLogins:
    """Counts failed logins, and writes their rows.

    Args:
        clock: a monotonic clock in seconds; tests pass their own.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._row: _Row | None = None

    def add(self, address: str, request_id: str) -> None:
        """Count a failure. The login goes on when its row cannot be written."""
        with self._lock:
            due = self._counted(address, request_id)
        try:
            for write in due:
                write()
        except PipeWeaveError as error:
            log.info("login.not_noted", extra={"reason": error.detail})

    def _counted(self, address: str, request_id: str) -> list[Callable[[], None]]:
        due: list[Callable[[], None]] = []
        row, now = self._row, self._clock()
        if row is None or now >= row.until:
            if row is not None and row.written < row.failures:
                due.append(self._again(row))
            note = audit.Note(_NOBODY, VERB, "session", request_id=request_id)
            row = self._row = _Row(now + WITHIN_S, note)
        row.failures += 1
        if address not in row.addresses and len(row.addresses) < MAX_ADDRESSES:
            row.addresses.append(address)
        if row.failures == 1:
            due.append(self._first(row))
        elif row.failures & (row.failures - 1) == 0:
            due.append(self._again(row))
        return due

    def _first(self, row: _Row) -> Callable[[], None]:
        note, after = row.note, row.after
        row.written = row.failures
        return lambda: self._database.run(lambda tx: audit.write(tx, note, {}, after))

    def _again(self, row: _Row) -> Callable[[], None]:
        note, after = row.note, row.after
        row.written = row.failures
        return lambda: audit.end_many(self._database, note, after)
