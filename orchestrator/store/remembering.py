"""A view of a transaction that sends no statement twice, for questions that are asked of many rows alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.orchestrator.store.cache import Cache, CacheSpec, K, V
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.rows import Result


class _RememberedRows:
    """The rows of a statement, to be read from the first one again by each reader: a cursor of its own."""

    def __init__(self, description: Any, rows: list[tuple[Any, ...]]) -> None:
        self.description = description
        self.rowcount = len(rows)
        self._rows = iter(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Remembering(Transaction):
    """A transaction for reading: a statement with the parameters of an earlier one has the same answer.

    Args:
        tx: the open transaction that it reads in.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._known: dict[tuple[str, str], tuple[Any, list[tuple[Any, ...]]]] = {}
        self.now = tx.now

    def cache(self, spec: CacheSpec[K, V]) -> Cache[K, V]:
        return self._tx.cache(spec)

    def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None, *, lock: str | None = None
    ) -> Result:
        """Run a statement, or answer as it did before.

        Raises:
            ValueError: it would lock rows.
        """
        if lock is not None:
            raise ValueError("a reader locks nothing")
        key = (statement, repr(sorted((parameters or {}).items())))
        if key not in self._known:
            self._known[key] = self._tx.execute(statement, parameters).kept()
        description, rows = self._known[key]
        return Result(_RememberedRows(description, rows))
