"""Takes migrations back: plans the steps, says what each of them drops, and takes them one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeweave.errors import Conflict, InvalidInput
from pipeweave.orchestrator.deployment import migrate
from pipeweave.orchestrator.deployment.schema_history import SchemaHistory
from pipeweave.orchestrator.registry import worker_processes
from pipeweave.orchestrator.store.database import Database, Transaction

BASE = "base"
"""The target below the first migration: nothing is left."""

MOST_COUNTED = 10_000
"""Rows of a table are counted up to here."""

_TABLES = re.compile(r"\bDROP TABLE ([\w, ]+)")
_ALTERED = re.compile(r"\bALTER TABLE (\w+)([^;]*)")
_COLUMNS = re.compile(r"\bDROP COLUMN (\w+)")
_DELETED = re.compile(r"\bDELETE FROM (\w+ WHERE [^;]+)")

_COUNT = "SELECT count(*) FROM (SELECT FROM {table} LIMIT :most) AS counted"

# Sessions of PipeWeave's processes; a command that looks is one, too.
_SESSIONS = """
SELECT count(*) FROM pg_stat_activity AS a
WHERE a.application_name LIKE 'pipeweave%' AND a.datname = current_database() AND a.pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class DowngradeStep:
    """One migration that is taken back, and what goes with it.

    Args:
        tables: name -> its rows; MOST_COUNTED + 1 says that there are more.
        columns: as `table.column`.
        deleted: rows that the schema before cannot hold, as `table WHERE condition`.
        sql: the statements.
    """

    revision: str
    summary: str
    tables: dict[str, int]
    columns: tuple[str, ...]
    deleted: tuple[str, ...]
    sql: str


def plan(database_url: str, target: str) -> list[DowngradeStep]:
    """The steps from the database's schema down to a target, the newest migration first; changes nothing.

    Args:
        target: a revision; `-N` for N steps; BASE.

    Raises:
        InvalidInput: there is no such revision.
        Conflict: the schema is newer than this version, or older than the target.
    """
    history = SchemaHistory()
    with Database(database_url, pool_size=0).transaction() as tx:
        applied = history.applied(tx)
        kept = _kept(history, applied, target)
        return [_step(tx, history, each) for each in reversed(applied[kept:])]


def _kept(history: SchemaHistory, applied: tuple[str, ...], target: str) -> int:
    """How many of the applied migrations stay."""
    if target == BASE:
        return 0
    if re.fullmatch(r"-\d{1,4}", target):
        return max(len(applied) + int(target), 0)
    if target not in history.revisions:
        raise InvalidInput(
            f"there is no migration {target!r}",
            hint=f"name one of {history.revisions[0]} to {history.revisions[-1]}, -1 for one step, or {BASE}",
        )
    if target not in applied:
        now_at = applied[-1] if applied else "no version"
        raise Conflict(f"the schema is at {now_at}, below {target}", hint="`pipeweave db migrate` goes up")
    return applied.index(target) + 1


def _step(tx: Transaction, history: SchemaHistory, revision: str) -> DowngradeStep:
    sql = history.sql_down(revision)
    tables = [name.strip() for names in _TABLES.findall(sql) for name in names.split(",")]
    columns = [
        f"{table}.{column}" for table, rest in _ALTERED.findall(sql) for column in _COLUMNS.findall(rest)
    ]
    deleted = [" ".join(each.split()) for each in _DELETED.findall(sql)]
    rows = {each: _rows(tx, each) for each in tables}
    return DowngradeStep(revision, history.summary(revision), rows, tuple(columns), tuple(deleted), sql)


def _rows(tx: Transaction, table: str) -> int:
    # The name comes from a migration.
    return int(tx.execute(_COUNT.format(table=table), {"most": MOST_COUNTED + 1}).scalar_one())


def take(
    database_url: str, steps: list[DowngradeStep], done: Callable[[str], None] = lambda revision: None
) -> None:
    """Take migrations back, each in a transaction of its own: one that fails leaves those before it done.

    Args:
        done: is called after each step with its revision.

    Raises:
        Conflict: somebody else changes the schema.
    """
    database, history = Database(database_url, pool_size=0), SchemaHistory()
    for step in steps:
        migrate.step_down(database, history, step.revision)
        done(step.revision)


def require_no_process(database_url: str) -> None:
    """Check that no process of PipeWeave uses the database: it would miss what a downgrade drops.

    Raises:
        Conflict: a worker is alive, or a process is connected.
    """
    with Database(database_url, pool_size=0).transaction() as tx:
        workers, sessions = worker_processes.count_alive(tx), int(tx.execute(_SESSIONS).scalar_one())
    if workers or sessions:
        raise Conflict(
            f"processes use this database: {workers} workers alive, {sessions} sessions of PipeWeave",
            hint="stop them, or replace them by ones of the older version and add --force",
        )
