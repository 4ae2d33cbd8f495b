"""Starts enqueued runs: the transaction that writes a run deletes the row that asked for it.

So a process may die at any moment, and several may do this at once: a row is there, or its run is. While one
process works on rows it has a lease, so that others need not try the same ones; whoever tries them all the
same finds them locked or gone.

What cannot start now is tried again: while storage is away, or its tenant is disabled or has used up a quota,
for as long as that lasts; while its pipeline or a task of it is not known, for PATIENCE. What can never start
is refused, and its row stays to say so.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave.errors import (
    Conflict,
    InputValidationFailed,
    InvalidInput,
    NotFound,
    PipeWeaveError,
    QuotaExceeded,
    TenantDisabled,
    Unavailable,
)
from pipeweave.orchestrator.registry import TaskRow
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.starts import loop
from pipeweave.orchestrator.starts.enqueued import rows
from pipeweave.orchestrator.starts.enqueued.rows import Enqueued
from pipeweave.orchestrator.store import leases
from pipeweave.orchestrator.store.alarm import Alarm
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import check_database
from pipeweave.orchestrator.store.values import Values
from pipeweave.schema import run_input_errors
from pipeweave.spec import PipelineSpec

log = logging.getLogger(__name__)

# Another process goes on when the one that starts runs was not heard of for so long.
LEASE = timedelta(seconds=5)
# PostgreSQL's code of an id or a token that is there.
_NOT_UNIQUE = "23505"
# One call starts at most so many batches; the next one goes on.
MOST_BATCHES = 25

# SQL: whether a run is due.
_DUE = "SELECT 1 FROM enqueued_runs AS e WHERE e.settled_at IS NULL AND e.due_at <= now()"
_SMALL, _LARGE = f"EXISTS ({_DUE} AND NOT e.is_large)", f"EXISTS ({_DUE} AND e.is_large)"
# SQL: whether there is anything for these chores.
IS_DUE = loop.is_due(_SMALL)
IS_LARGE_DUE = loop.is_due(_LARGE)
_HAS_DUE = f"SELECT {_SMALL} AS small, {_LARGE} AS large{{also}}"


class Due(NamedTuple):
    """Whether runs wait to be started whose inputs stay in their rows, and whose inputs go to storage; and
    what was asked beside it.
    """

    small: bool
    large: bool
    also: tuple[Any, ...]


def has_due(tx: Transaction, *also: str) -> Due:
    """Whether runs wait to be started: a look at an index that is nearly always empty.

    Args:
        also: SQL: conditions and values that are looked at by the same statement.
    """
    row: Any = tx.execute(_has_due(also)).one()
    return Due(row.small, row.large, row[2:])


@functools.cache
def _has_due(also: tuple[str, ...]) -> str:
    """The statement of a look; few sets of conditions are asked for, again and again."""
    columns = "".join(f", {condition} AS also_{number}" for number, condition in enumerate(also))
    return _HAS_DUE.format(also=columns)


def alarm(tx: Transaction) -> Alarm:
    """Wakes up whoever waits for enqueued runs."""
    return Alarm(tx, "enqueued_runs")


def run_once(database: Database, values: Values) -> int:
    """Start the enqueued runs that are due and need no storage. Nothing starts unless the deployment accepts
    new work.

    Returns:
        How many rows were dealt with.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    return _run(database, values, leases.ENQUEUED, is_large=False)


def run_large(database: Database, values: Values) -> int:
    """As `run_once`, the runs whose inputs go to storage; it may wait for that."""
    return _run(database, values, leases.ENQUEUED_LARGE, is_large=True)


def _run(database: Database, values: Values, name: str, *, is_large: bool) -> int:
    if not loop.is_accepting(database):
        return 0
    lease = leases.take(database, name, LEASE, leases.this_thread())
    if lease is None:
        return 0
    done = 0
    try:
        for _ in range(MOST_BATCHES):
            dealt_with = _start_batch(database, values, is_large=is_large)
            done += dealt_with
            if not dealt_with or not (lease.is_fresh or leases.renew(database, lease)):
                break
    finally:
        leases.end(database, lease)
    return done


def _start_batch(database: Database, values: Values, *, is_large: bool) -> int:
    with database.statements() as tx:
        batch = rows.due(tx, is_large=is_large)
    faults = {each.id: each.fault for each in batch if each.fault is not None}
    done = _refuse(database, batch, faults) if faults else 0
    readable = sorted((each for each in batch if each.fault is None), key=_group)
    for _, together in groupby(readable, key=_group):
        done += _start(database, values, list(together))
    return done


def _refuse(database: Database, batch: Sequence[Enqueued], faults: Mapping[UUID, str]) -> int:
    """Note that these rows will never start; the number of rows."""
    for each in batch:
        if each.id in faults:
            extra = {**_names([each]), "error_code": InvalidInput.code, "reason": faults[each.id], "runs": 1}
            log.warning("enqueued.refused", extra=extra)
    return database.run(lambda tx: rows.refuse_each(tx, InvalidInput.code, faults))


def _group(each: Enqueued) -> tuple[str, str]:
    return each.tenant, each.pipeline_id


class _Wrong(InputValidationFailed):
    """The pipeline refuses some of the inputs.

    Args:
        texts: why, by row.
    """

    def __init__(self, texts: Mapping[UUID, str]) -> None:
        super().__init__()
        self.texts = texts


class _Taken(Exception):
    """Another process has some of the rows.

    Args:
        left: those that it does not have.
    """

    def __init__(self, left: set[UUID]) -> None:
        self.left = left


def _start(database: Database, values: Values, batch: Sequence[Enqueued]) -> int:
    """Start rows of one pipeline; the number of rows that were dealt with."""
    if not batch:
        return 0
    try:
        database.run(lambda tx: _write(tx, values, batch), is_one=False)
        return len(batch)
    except _Wrong as wrong:
        texts, code = wrong.texts, wrong.code
        refused = database.run(lambda tx: rows.refuse_each(tx, code, texts))
        log.warning("enqueued.refused", extra={**_names(batch), "error_code": code, "runs": len(texts)})
        return refused + _start(database, values, [each for each in batch if each.id not in texts])
    except _Taken as taken:
        return _start(database, values, [each for each in batch if each.id in taken.left])
    except Exception as error:
        check_database(database, error)
        return _record(database, values, batch, error)


def _write(tx: Transaction, values: Values, batch: Sequence[Enqueued]) -> None:
    """Start these rows, all or none."""

    def check(spec: PipelineSpec, _: Mapping[str, TaskRow]) -> None:
        wrong = {each.id: _faults(spec, each) for each in batch}
        if texts := {id: text for id, text in wrong.items() if text is not None}:
            raise _Wrong(texts)

    def claim(tx: Transaction) -> None:
        left = rows.lock(tx, batch)
        if len(left) < len(batch):
            raise _Taken(left)

    head = batch[0]
    requests = [each.trigger for each in batch]
    created = triggering.trigger_many(
        tx, values, head.tenant, head.pipeline_id, requests, check=check, claim=claim
    )
    first = {each.id: run.id for each, run in zip(batch, created, strict=True) if run.id != each.id}
    rows.delete(tx, [each.id for each in batch if each.id not in first])
    if first:
        rows.point_to(tx, first)


def _faults(spec: PipelineSpec, each: Enqueued) -> str | None:
    """What the pipeline's own schema says against an input."""
    errors = run_input_errors(spec.input_schema, each.trigger.input)
    if not errors:
        return None
    said = "; ".join(f"{error.field or 'input'} {error.message}" for error in errors[:5])
    return f"pipeline {spec.id!r}: {said}" + (f" (and {len(errors) - 5} more)" if errors[5:] else "")


def _record(database: Database, values: Values, batch: Sequence[Enqueued], error: Exception) -> int:
    """Decide what becomes of rows that could not be started."""
    # What a task or the pipeline lacks, every row of it lacks; what one input lacks, the others may have.
    concerns_all = isinstance(error, (NotFound, Conflict, Unavailable, TenantDisabled))
    if len(batch) > 1 and not concerns_all:
        middle = len(batch) // 2
        return _start(database, values, batch[:middle]) + _start(database, values, batch[middle:])
    if getattr(error, "pgcode", None) == _NOT_UNIQUE:
        error = InvalidInput("id is that of a run that is there: leave it out, or make a UUIDv7 of now")
    code, text = rows.code_and_text(error)
    with database.statements() as tx:
        now = tx.now
    hopeless = [each.id for each in batch if _is_hopeless(error, each, now - each.at)]
    later = [each.id for each in batch if each.id not in hopeless]
    names = {**_names(batch), "error_code": code, "reason": text}
    done = 0
    if hopeless:
        log.warning("enqueued.refused", extra={**names, "runs": len(hopeless)})
        done += database.run(lambda tx: rows.refuse(tx, hopeless, code, text))
    if later:
        traceback = None if isinstance(error, PipeWeaveError) else error
        log.info("enqueued.postponed", extra={**names, "runs": len(later)}, exc_info=traceback)
        done += database.run(lambda tx: rows.postpone(tx, later, code, text))
    return done


def _names(batch: Sequence[Enqueued]) -> dict[str, str]:
    return {"tenant": batch[0].tenant, "pipeline_id": batch[0].pipeline_id}


def _is_hopeless(error: Exception, each: Enqueued, age: timedelta) -> bool:
    """Whether another try would not help."""
    if isinstance(error, (Unavailable, QuotaExceeded, TenantDisabled)):
        return False
    may_help = isinstance(error, (NotFound, Conflict)) or not isinstance(error, PipeWeaveError)
    return not may_help or age > rows.PATIENCE
