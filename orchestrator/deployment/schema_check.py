"""Checks, when a process starts, that the database has the schema that this version needs."""

from __future__ import annotations

import logging
from importlib.resources import files

from pipeweave.errors import SchemaOutdated, Unavailable
from pipeweave.orchestrator.store.database import Database

log = logging.getLogger(__name__)

_CURRENT = "SELECT version_num FROM schema_migrations"


def require_current(database: Database) -> None:
    """Check the revision of the database. A newer one is fine: a migration only adds.

    Raises:
        SchemaOutdated: there is no schema yet, or an older one.
        Unavailable: PostgreSQL cannot be reached.
    """
    latest = max(shipped())
    try:
        with database.statements() as tx:
            current: str | None = tx.execute(_CURRENT).scalar_one_or_none()
    except SchemaOutdated:
        current = None
    if current is None:
        raise SchemaOutdated("the database has no schema yet", hint="run `pipeweave db migrate`")
    if current < latest:
        raise SchemaOutdated(
            f"the schema of the database is at {current}, and this version of PipeWeave needs {latest}",
            hint="run `pipeweave db migrate`",
        )
    if current > latest:
        log.warning("schema.newer", extra={"schema": current, "known": latest})


def require_current_if_reachable(database: Database) -> None:
    """As `require_current`; a database that cannot be reached is left to the process, which waits for it.

    Raises:
        SchemaOutdated: there is no schema yet, or an older one.
    """
    try:
        require_current(database)
    except SchemaOutdated:
        raise
    except Unavailable as error:
        log.warning("schema.unknown", extra={"reason": error.detail})


def shipped() -> frozenset[str]:
    """The revisions of this version; each is the beginning of its file's name. Alembic is not loaded."""
    names = (each.name for each in files("pipeweave.migrations.versions").iterdir())
    return frozenset(name[:4] for name in names if name[:4].isdecimal())
