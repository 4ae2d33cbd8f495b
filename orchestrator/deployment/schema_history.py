"""The migrations that this version has, in their order, and one step along them, up or down."""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory

from pipeweave.errors import Conflict
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
        current = _context(tx).get_current_revision()
        if current is None:
            return ()
        if current not in self.revisions:
            raise Conflict(
                f"the schema is at {current}, which this version of PipeWeave does not know",
                hint="use the version that migrated it",
            )
        return self.revisions[: self.revisions.index(current) + 1]

    def summary(self, revision: str) -> str:
        """What a migration does: the first sentence of its file."""
        return str(self._script(revision).doc)

    def step_up(self, tx: Transaction, revision: str) -> None:
        """Apply a migration to a schema that has the ones before."""
        with Operations.context(_context(tx)):
            self._script(revision).module.upgrade()
        _context(tx).stamp(self._scripts, revision)

    def step_down(self, tx: Transaction, revision: str) -> None:
        """Take back the newest migration of a schema."""
        with Operations.context(_context(tx)):
            self._script(revision).module.downgrade()
        before = self.revisions[: self.revisions.index(revision)]
        _context(tx).stamp(self._scripts, before[-1] if before else "base")

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


def _context(tx: Transaction) -> MigrationContext:
    return MigrationContext.configure(tx.connection, opts={"version_table": _VERSION_TABLE})
