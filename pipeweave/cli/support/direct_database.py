"""Open the database for operators' commands that do not go through the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeweave.errors import Conflict

if TYPE_CHECKING:
    from pipeweave.orchestrator.store import Database


@contextmanager
def opened(database_url: str, *, pool_size: int = 1) -> Iterator[Database]:
    """Open the database at this URL for the block.

    Args:
        pool_size: connections kept open.

    Raises:
        Conflict: the database lacks the current schema. Unavailable: it cannot be reached.
    """
    from pipeweave.orchestrator.deployment import schema_check
    from pipeweave.orchestrator.store import Database

    if not schema_check.status(database_url).is_current:
        raise Conflict("the database lacks the current schema", hint="run `pipeweave db migrate` first")
    database = Database(database_url, pool_size=pool_size)
    try:
        yield database
    finally:
        database.dispose()
