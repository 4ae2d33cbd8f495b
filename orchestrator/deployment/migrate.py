"""Upgrades, checks or resets the database schema."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from pipeweave.orchestrator.retention import partitions
from pipeweave.orchestrator.store import advisory_locks
from pipeweave.orchestrator.store.database import Database, Transaction

# How long a migration may take between two of its statements.
_LONGEST_PAUSE = "SET LOCAL idle_in_transaction_session_timeout = '1min'"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The database's revision, the latest one shipped, and those in between, not applied yet.

    `current` is None for an empty database.
    """

    current: str | None
    latest: str
    pending: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return not self.pending


def upgrade(database_url: str) -> SchemaStatus:
    """Run every pending migration and create missing partitions, in one transaction under an advisory lock.

    If two processes migrate at once, the second waits, and then finds nothing to do.
    """
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        tx.execute(_LONGEST_PAUSE)
        advisory_locks.hold_until_commit(tx, advisory_locks.MIGRATION)
        command.upgrade(_config(tx), "head")
        partitions.ensure(tx, tx.now)
        return _status(tx)


def status(database_url: str) -> SchemaStatus:
    """Compare the database's revision with the newest one shipped."""
    with Database(database_url, pool_size=0).transaction() as tx:
        return _status(tx)


def reset(database_url: str) -> SchemaStatus:
    """Drop the whole `public` schema with all its data, and create the tables again."""
    with Database(database_url, pool_size=0).transaction() as tx:
        advisory_locks.hold_until_commit(tx, advisory_locks.MIGRATION)
        tx.execute("DROP SCHEMA public CASCADE")
        tx.execute("CREATE SCHEMA public")
    return upgrade(database_url)


def _status(tx: Transaction) -> SchemaStatus:
    context = MigrationContext.configure(tx.connection, opts={"version_table": "schema_migrations"})
    current = context.get_current_revision()
    script = ScriptDirectory.from_config(_config(tx))
    revisions = [each.revision for each in script.walk_revisions()][::-1]
    pending = revisions if current is None else revisions[revisions.index(current) + 1 :]
    return SchemaStatus(current, revisions[-1], tuple(pending))


def _config(tx: Transaction) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("pipeweave.migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = tx.connection
    return config
