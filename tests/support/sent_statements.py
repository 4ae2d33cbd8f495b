"""Counting the statements that are sent to PostgreSQL, and the commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from pipeweave.orchestrator.store import connections
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.silence import Cursor


class SentStatements(list[str]):
    """The statements, as they came.

    Attributes:
        commits: how many transactions ended with a commit: those of BEGIN and COMMIT, and each statement that
            commits by itself. Preparing a statement and reading the clock are none.
    """

    commits = 0

    @property
    def cost(self) -> tuple[int, int]:
        """Statements and commits."""
        return len(self), self.commits


@contextmanager
def sent_statements(*, of_all_threads: bool = True) -> Iterator[SentStatements]:
    """The statements that this process sends in the block, as they come.

    Args:
        of_all_threads: False leaves out what other threads send: heartbeats, and who watches for changes.
    """
    sent, here = SentStatements(), threading.get_ident()
    execute, send = Transaction.execute, Cursor.execute

    def is_counted() -> bool:
        return of_all_threads or threading.get_ident() == here

    def record(tx: Transaction, statement: str, *args: Any, **options: Any) -> Any:
        if is_counted():
            sent.append(statement)
        return execute(tx, statement, *args, **options)

    def record_commit(cursor: Cursor, query: Any, vars: Any = None) -> None:
        send(cursor, query, vars)
        is_idle = cursor.connection.get_transaction_status() == TRANSACTION_STATUS_IDLE
        is_commit = query != connections._CLOCK and not query.startswith(("PREPARE ", "ROLLBACK"))
        if is_idle and is_commit and is_counted():
            sent.commits += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "execute", record)
        patch.setattr(Cursor, "execute", record_commit)
        yield sent
