"""The loop of all that begins runs by itself: what is due is locked, its runs are started, and it is noted.

Each cause has a transaction of its own for that: all of it, or nothing. So a process may die at any moment,
and several may do this at once. A cause whose runs are refused is noted as failed, and holds up no other.
Nothing starts in maintenance, and tenants take turns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import new_runs
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.orchestrator.store.values import Values

log = logging.getLogger(__name__)

# One pass takes at most this many causes of a source; the next tick goes on.
BATCH = 200
# Tenants take turns among the rows of this many batches.
WINDOW = 10

Cause = TypeVar("Cause")


@dataclass(frozen=True, slots=True)
class Source(Generic[Cause]):
    """What begins runs: schedules, or hooks.

    Args:
        name: of a cause, in the log: `schedule`.
        due: the rows of what is due, with `tenant_id` and the `cause` that the log names.
        lock: locks the cause of such a row; None when it is not due any more, or another transaction has it.
        requests: the runs to start for it, all of one pipeline.
        record: notes what became of it: the runs, or why none could start. Returns how many fires that are.
    """

    name: str
    due: Callable[[Transaction], Sequence[Any]]
    lock: Callable[[Transaction, Any], Cause | None]
    requests: Callable[[Transaction, Cause], Sequence[StartRequest]]
    record: Callable[[Transaction, Cause, Sequence[CreatedRun], PipeWeaveError | None], int]

    def names(self, row: Any) -> dict[str, str]:
        """The cause of a row, as the log names it."""
        return {"tenant": row.tenant_id, self.name: str(row.cause)}


def run_once(database: Database, values: Values, source: Source[Any]) -> int:
    """Start what is due of a source. Nothing starts unless the deployment accepts new work.

    Returns:
        How many fires were noted.

    Raises:
        PartlyFailed: some causes could not be looked at; the others were.
        Unavailable: PostgreSQL cannot be reached.
    """
    if not is_accepting(database):
        return 0
    isolation = Isolation(database)
    return isolation.finish(start_due(database, values, source, isolation))


def start_due(database: Database, values: Values, source: Source[Any], isolation: Isolation) -> int:
    """Start what is due of a source, as one part of a pass; how many fires were noted.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        rows = source.due(tx)
    return start_all(database, values, source, rows, isolation)


def start_all(
    database: Database, values: Values, source: Source[Any], rows: Iterable[Any], isolation: Isolation
) -> int:
    """Start what these rows of a source stand for; how many fires were noted.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    return sum(
        isolation.run(
            lambda each=each: _start_or_record(database, values, source, each),  # type: ignore[misc]
            **source.names(each),
        )
        for each in rows
    )


def _start_or_record(database: Database, values: Values, source: Source[Any], row: Any) -> int:
    """Start the runs of one cause; when they are refused, note that instead."""
    try:
        return database.run(lambda tx: start(tx, values, source, row))
    except Unavailable:
        raise
    except PipeWeaveError as error:
        extra = {**source.names(row), "error_code": error.code, "reason": error.detail}
        log.warning(f"{source.name}.failed", extra=extra)
        refused = error
    return database.run(lambda tx: start(tx, values, source, row, failure=refused))


def start(
    tx: Transaction,
    values: Values,
    source: Source[Cause],
    row: Any,
    *,
    failure: PipeWeaveError | None = None,
) -> int:
    """Start the runs of one cause. Nothing happens when that is done, or another transaction does it.

    Args:
        failure: why no run can start; it is noted.

    Returns:
        How many fires were noted.

    Raises:
        PipeWeaveError: no run can start.
    """
    cause = source.lock(tx, row)
    if cause is None:
        return 0
    requests = () if failure is not None else source.requests(tx, cause)
    runs = new_runs.start(tx, values, row.tenant_id, requests)
    return source.record(tx, cause, runs, failure)


def is_accepting(database: Database) -> bool:
    """Whether the deployment accepts new work.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        return deployment_mode.mode(tx) == deployment_mode.RUNNING


def is_due(condition: str) -> str:
    """SQL: whether there is anything for a chore that starts runs.

    Args:
        condition: SQL that is true when something is due.
    """
    return f"(({condition}) AND {deployment_mode.MODE} = '{deployment_mode.RUNNING}')"


def in_turns(due: str, at: str) -> str:
    """SQL: the first `:batch` rows that are due, one of each tenant, then the next one of each, and so on.

    So thousands of rows of one tenant do not keep another tenant's waiting.

    Args:
        due: SQL without ORDER BY that selects `tenant_id`, `id` and the time of what is due at `:now`.
        at: the column of the time.
    """
    return f"""
SELECT w.* FROM (
    SELECT o.*, {turn("o.tenant_id", f"o.{at}, o.id")} AS turn
    FROM ({due} ORDER BY {at} LIMIT :window) AS o) AS w
ORDER BY w.turn, w.{at}, w.id LIMIT :batch
"""


def first(now: datetime) -> dict[str, Any]:
    """The parameters of SQL of `in_turns`: the first BATCH rows that are due now."""
    return {"now": now, "window": WINDOW * BATCH, "batch": BATCH}
