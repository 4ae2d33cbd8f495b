"""Checks that the database has the schema that this version needs. Alembic is not loaded for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib.resources import files

from pipeweave.errors import Conflict, SchemaOutdated, Unavailable
from pipeweave.orchestrator.store.database import Database

log = logging.getLogger(__name__)

_CURRENT = "SELECT version_num FROM schema_migrations"


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


def status(database_url: str) -> SchemaStatus:
    """Compare the database's revision with the newest one shipped.

    Raises:
        Conflict: the schema is newer than this version.
        Unavailable: PostgreSQL cannot be reached.
    """
    current, known = _current(Database(database_url, pool_size=0)), sorted(shipped())
    if current is not None and current not in known:
        raise unknown(current)
    return SchemaStatus(current, known[-1], tuple(each for each in known if each > (current or "")))


def unknown(revision: str) -> Conflict:
    """The error for a schema that this version does not know."""
    return Conflict(
        f"the schema is at {revision}, which this version of PipeWeave does not know",
        hint="use the version that migrated it",
    )


def _current(database: Database) -> str | None:
    """The revision of the database; None without a schema."""
    try:
        with database.statements() as tx:
            current: str | None = tx.execute(_CURRENT).scalar_one_or_none()
    except SchemaOutdated:
        return None
    return current


def require_current(database: Database) -> None:
    """Check the revision of the database. A newer one is fine: a migration only adds.

    Raises:
        SchemaOutdated: there is no schema yet, or an older one.
        Unavailable: PostgreSQL cannot be reached.
    """
    latest, current = max(shipped()), _current(database)
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
    """The revisions of this version; each is the beginning of its file's name."""
    names = (each.name for each in files("pipeweave.migrations.versions").iterdir())
    return frozenset(name[:4] for name in names if name[:4].isdecimal())
