"""Read models of signals."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.documents.waits import Signal
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest

_SIGNALS = """
SELECT s.* FROM signals AS s WHERE s.run_id = :run_id AND s.id > :after ORDER BY s.id LIMIT :limit
"""
_BEFORE_ALL = UUID(int=0)


def signal_list(tx: Transaction, tenant: str, run_id: UUID, page: PageRequest) -> Document:
    """The signals of a run, the oldest first: {items, nextCursor}.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, run_id)
    after = page.after_id("signals") or _BEFORE_ALL
    rows = tx.execute(_SIGNALS, {"run_id": run_id, "after": after, "limit": page.limit + 1}).all()
    return page.cut(rows, "signals", lambda row: (row.id,), signal_row)


def signal_row(row: Any) -> Document:
    """A signal as its row has it."""
    return Signal.of(row, is_stored=row.payload_path is not None)
