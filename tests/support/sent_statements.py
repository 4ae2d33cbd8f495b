"""Counting the statements that are sent to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipeweave.orchestrator.store.database import Transaction


@contextmanager
def sent_statements() -> Iterator[list[str]]:
    """The statements that this process sends in the block, as they come."""
    sent: list[str] = []
    execute = Transaction.execute

    def record(tx: Transaction, statement: str, *args: Any, **options: Any) -> Any:
        sent.append(statement)
        return execute(tx, statement, *args, **options)

    Transaction.execute = record  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        Transaction.execute = execute  # type: ignore[method-assign]
