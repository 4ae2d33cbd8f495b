"""Ends the sessions of a process, so that it is certain what they did.

A statement whose answer is missing may still wait for a lock, and become durable later: the server need not
know yet that nobody listens. What one reads is final only when its session has ended.
"""

from __future__ import annotations

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.statements import statement

# How long (ms) a session that was told to end may take for it. It rolls back what it did not commit.
WAIT_MS = 1_000

_OF_NAME = """
FROM pg_stat_activity AS a
WHERE a.application_name = :name AND a.datname = current_database() AND a.usename = current_user
    AND a.pid <> pg_backend_pid()
"""
_END = f"SELECT pg_terminate_backend(a.pid, CAST(:wait AS bigint)) {_OF_NAME}"
_LEFT = f"SELECT count(*) {_OF_NAME}"


def end(database: Database, name: str) -> None:
    """End every session of this name but the one that does this.

    Raises:
        Unavailable: PostgreSQL cannot be reached, or a session has not ended: it may still commit.
    """
    if database.session_name == name:
        # Those that nobody uses: whoever took one of them would find that it was ended.
        database.connections.close()
    with database.connections.lend() as connection:
        ended = statement(_END).run(connection, {"name": name, "wait": WAIT_MS}).scalars()
        if ended and (left := statement(_LEFT).run(connection, {"name": name}).scalar_one()):
            raise Unavailable(f"{left} sessions of {name!r} have not ended yet")
