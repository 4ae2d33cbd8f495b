"""Watches which tables the statements of a transaction lock, and in which order."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.lock_order import LOCK_ORDER
from pipeweave.orchestrator.store.rows import Result

_TABLE = rf"\b({'|'.join(LOCK_ORDER)})\b"
# `FROM task_runs AS t ... FOR UPDATE OF t SKIP LOCKED`
_SELECTED = re.compile(r"FOR (?:NO KEY )?UPDATE(?: OF (?P<alias>[a-z]+))?(?P<skips> SKIP LOCKED)?")
_WRITTEN = re.compile(
    rf"UPDATE {_TABLE}|DELETE FROM {_TABLE}"
    rf"|INSERT INTO {_TABLE}(?:(?!INSERT INTO).)*?ON CONFLICT.*?DO UPDATE",
    re.DOTALL,
)


class LockWatch:
    """Notes each wait of a transaction for the first rows of a table.

    Args:
        monkeypatch: puts the watch into every Transaction until the test ends.

    Attributes:
        waits: (table held, table waited for) -> how often.
        sequence: the table of each lock that waits, in order, repeated ones included.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: Counter[tuple[str, str]] = Counter()
        self.sequence: list[str] = []
        self._held: WeakKeyDictionary[Transaction, list[str]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        execute = Transaction.execute

        def watched(
            tx: Transaction,
            statement: str,
            parameters: Mapping[str, Any] | None = None,
            *,
            lock: str | None = None,
        ) -> Result:
            if not (tx._is_open or tx._opening):
                # Each statement commits by itself.
                self._held.pop(tx, None)
            for text in (lock, statement):
                if text is not None:
                    self._note(tx, text)
            return execute(tx, statement, parameters, lock=lock)

        monkeypatch.setattr(Transaction, "execute", watched)

    def _note(self, tx: Transaction, text: str) -> None:
        with self._lock:
            held = self._held.setdefault(tx, [])
            locked = list(tables_locked(text))
            self.sequence += [table for table, waits in locked if waits]
            for table, waits in locked:
                if waits and table not in held:
                    self.waits.update((each, table) for each in held)
            held.extend(table for table, _ in locked if table not in held)


def tables_locked(statement: str) -> Iterator[tuple[str, bool]]:
    """The tables whose rows a statement locks, each with whether it waits for rows that others hold."""
    skipping = set()
    for match in _SELECTED.finditer(statement):
        table = _table_of(statement[: match.start()], match["alias"])
        if table is not None:
            if match["skips"]:
                skipping.add(table)
            yield table, not match["skips"]
    for match in _WRITTEN.finditer(statement):
        # Rows that the same statement picked with SKIP LOCKED are its own by then.
        table = next(filter(None, match.groups()))
        yield table, table not in skipping


def _table_of(before: str, alias: str | None) -> str | None:
    """The table that `FOR UPDATE [OF alias]` at the end of this text locks."""
    named = rf"(?:FROM|JOIN) {_TABLE}" + (rf"(?: AS)? {alias}\b" if alias else "")
    found = re.findall(named, before)
    return found[-1] if found else None
