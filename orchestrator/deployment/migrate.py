"""Upgrades, downgrades or resets the database schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipeweave.errors import Conflict
from pipeweave.orchestrator.deployment.schema_check import SchemaStatus
from pipeweave.orchestrator.deployment.schema_history import SchemaHistory
from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database, Transaction

# How long a migration may take between two of its statements.
_LONGEST_PAUSE = "SET LOCAL idle_in_transaction_session_timeout = '1min'"


def upgrade(database_url: str) -> SchemaStatus:
    """Run every pending migration, each in a transaction of its own; the last one creates missing partitions.

    Each transaction takes the advisory lock and reads the revision anew, so two processes that migrate at
    once take turns, and each step runs once. One that dies leaves the schema at a whole step.

    Raises:
        Conflict: the schema is newer than this version.
    """
    # One connection for all steps: a new one would read the whole catalog anew.
    database, history = Database(database_url, pool_size=1), SchemaHistory()
    try:
        while not (reached := _one_up(database, history)).is_current:
            pass
        return reached
    finally:
        database.dispose()


def _one_up(database: Database, history: SchemaHistory) -> SchemaStatus:
    with _stepping(database) as tx:
        pending = _status(tx, history).pending
        if pending:
            history.step_up(tx, pending[0])
        # With the last step, so that there is no current schema that refuses rows.
        if len(pending) <= 1:
            partitions.ensure(tx, tx.now)
        return _status(tx, history)


def step_down(database: Database, history: SchemaHistory, revision: str) -> None:
    """Take back the newest migration, in a transaction of its own.

    Args:
        revision: of that migration.

    Raises:
        Conflict: the newest one is another: somebody else changes the schema.
    """
    with _stepping(database) as tx:
        if history.applied(tx)[-1:] != (revision,):
            raise Conflict(
                f"the schema is not at {revision} any more", hint="another process changes it: look again"
            )
        history.step_down(tx, revision)


def reset(database_url: str) -> SchemaStatus:
    """Drop the whole `public` schema with all its data, and create the tables again."""
    with _stepping(Database(database_url, pool_size=0)) as tx:
        tx.execute("DROP SCHEMA public CASCADE")
        tx.execute("CREATE SCHEMA public")
    return upgrade(database_url)


@contextmanager
def _stepping(database: Database) -> Iterator[Transaction]:
    """A transaction for one step of the schema: nobody else changes the schema meanwhile."""
    with database.transaction() as tx:
        tx.execute(_LONGEST_PAUSE)
        advisory_locks.hold_until_commit(tx, advisory_locks.MIGRATION)
        yield tx


def _status(tx: Transaction, history: SchemaHistory) -> SchemaStatus:
    applied = history.applied(tx)
    pending = history.revisions[len(applied) :]
    return SchemaStatus(applied[-1] if applied else None, history.revisions[-1], pending)
