"""The migrations that this version has, in their order, and one step along them, up or down."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files

import psycopg2
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from pipeweave.orchestrator.deployment import schema_check
from pipeweave.orchestrator.store.database import Transaction

_VERSION_TABLE = "schema_migrations"


class SchemaHistory:
    """The migrations; a step runs in the caller's transaction."""

    def __init__(self) -> None:
        self._scripts = _scripts()
        self.revisions = tuple(each.revision for each in self._scripts.walk_revisions())[::-1]
        """The oldest first."""

    def applied(self, tx: Transaction) -> tuple[str, ...]:
        """The migrations that the database has, the oldest first; none for an empty database.

        Raises:
            Conflict: it has one that this version does not know.
        """
        with _context(tx) as context:
            current = context.get_current_revision()
        if current is None:
            return ()
        if current not in self.revisions:
            raise schema_check.unknown(current)
        return self.revisions[: self.revisions.index(current) + 1]

    def summary(self, revision: str) -> str:
        """What a migration does: the first sentence of its file."""
        return str(self._script(revision).doc)

    def step_up(self, tx: Transaction, revision: str) -> None:
        """Apply a migration to a schema that has the ones before."""
        with _context(tx) as context:
            with Operations.context(context):
                self._script(revision).module.upgrade()
            context.stamp(self._scripts, revision)

    def step_down(self, tx: Transaction, revision: str) -> None:
        """Take back the newest migration of a schema."""
        with _context(tx) as context:
            with Operations.context(context):
                self._script(revision).module.downgrade()
            before = self.revisions[: self.revisions.index(revision)]
            context.stamp(self._scripts, before[-1] if before else "base")

    def sql_down(self, revision: str) -> str:
        """The statements that take a migration back; nothing is sent."""
        written = io.StringIO()
        options = {"as_sql": True, "output_buffer": written}
        with Operations.context(MigrationContext.configure(dialect_name="postgresql", opts=options)):
            self._script(revision).module.downgrade()
        return written.getvalue().strip()

    def _script(self, revision: str) -> Script:
        script = self._scripts.get_revision(revision)
        assert script is not None, revision
        return script


@cache
def _scripts() -> ScriptDirectory:
    """The files of migrations. A process reads them once: that takes longer than most steps along them."""
    config = Config()
    config.set_main_option("script_location", str(files("pipeweave.migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


@contextmanager
def _context(tx: Transaction) -> Iterator[MigrationContext]:
    """Alembic over the connection of the transaction, which it neither ends nor closes.

    Raises:
        psycopg2.Error: PostgreSQL refused a statement. It comes as everywhere, not as SQLAlchemy wraps it.
    """
    driver = tx.connection
    engine = create_engine(
        "postgresql+psycopg2://",
        creator=lambda: driver,
        poolclass=StaticPool,
        # To the driver each statement is a transaction of its own: it sends no BEGIN, COMMIT or ROLLBACK.
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
        use_native_hstore=False,
    )
    try:
        with engine.connect() as connection:
            yield MigrationContext.configure(connection, opts={"version_table": _VERSION_TABLE})
    except DBAPIError as error:
        if isinstance(error.orig, psycopg2.Error):
            raise error.orig from error
        raise
