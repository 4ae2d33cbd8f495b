"""Compares the stored rows of a run with the rows that its events imply; repairs nothing.

An open run can be compared in a `snapshot`: a change and its event commit together, so in a snapshot rows and
events agree, unless there is a defect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import NotFound
from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.replay import RebuiltAttempt, RebuiltRun, RebuiltTaskRun, ReplayFault
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.domain.stored_event import StoredEvent
from pipeweave.orchestrator.store.database import Database, Transaction

# Rows and events are read in pieces of ROWS_AT_ONCE, run ids in pieces of RUNS_AT_ONCE.
ROWS_AT_ONCE = 5_000
RUNS_AT_ONCE = 500
# If all of a run's events are lost, every row differs: so the number of differences shown is limited.
MOST_PER_RUN = 100

MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between rows and events.

    Args:
        task_run_id: None when the run's own row differs.
        field: the column; `attempts[n]` for a row of attempts; `event` when an event is impossible at its
            place; `row` when the row is missing on one of the two sides.
        stored: the value in the row.
        rebuilt: the value according to the events.
    """

    run_id: UUID
    task_run_id: UUID | None
    field: str
    stored: Any
    rebuilt: Any


@contextmanager
def snapshot(database: Database) -> Iterator[Transaction]:
    """A read-only transaction whose statements all see the same moment."""
    with database.transaction() as tx:
        tx.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield tx


def all_runs(tx: Transaction, *, since: datetime | None = None) -> Iterator[Difference]:
    """The differences of every run, newest first.

    Args:
        tx: a `snapshot`, or any transaction if nothing changes meanwhile.
        since: only runs created at this time or later.
    """
    for run_id in run_ids(tx, since=since):
        yield from run(tx, run_id)


def run_ids(tx: Transaction, *, since: datetime | None = None, before: UUID | None = None) -> Iterator[UUID]:
    """The ids of every run, newest first, read in pieces.

    Args:
        since: only runs created at this time or later.
        before: only runs older than the run with this id.
    """
    oldest = ids.first_id_at(0 if since is None else max(0, int(since.timestamp() * 1000)))
    last = before or UUID(int=(1 << 128) - 1)
    while rows := tx.execute(_RUNS, {"oldest": oldest, "before": last, "limit": RUNS_AT_ONCE}).scalars():
        yield from rows
        last = rows[-1]


_BETWEEN = "SELECT r.id FROM runs AS r WHERE r.id BETWEEN :first AND :last ORDER BY r.id DESC LIMIT :limit"


def runs_between(tx: Transaction, first: UUID, last: UUID, limit: int) -> list[UUID]:
    """The newest runs with ids from `first` to `last`, at most `limit`."""
    return list(tx.execute(_BETWEEN, {"first": first, "last": last, "limit": limit}).scalars())


_RUNS = "SELECT r.id FROM runs AS r WHERE r.id >= :oldest AND r.id < :before ORDER BY r.id DESC LIMIT :limit"


def run(tx: Transaction, run_id: UUID) -> list[Difference]:
    """The differences between rows and events of a run, at most MOST_PER_RUN; empty when they agree.

    Raises:
        NotFound: there is no such run.
    """
    return list(islice(differences(tx, run_id, replay.rebuild(events(tx, run_id))), MOST_PER_RUN))


def differences(tx: Transaction, run_id: UUID, rebuilt: RebuiltRun) -> Iterator[Difference]:
    """All differences between the rows of a run and what was rebuilt of it.

    Raises:
        NotFound: there is no such run.
    """
    row = tx.execute(_RUN, {"run_id": run_id}).one_or_none()
    if row is None:
        raise NotFound(f"run {ids.show(ids.RUN, run_id)} not found")
    return _differences(tx, run_id, row, rebuilt)


_RUN = "SELECT r.status, r.error_code, r.started_at, r.edits FROM runs AS r WHERE r.id = :run_id"

_EVENTS = """
SELECT e.seq, e.type, e.task_run_id, e.attempt, e.data, e.at FROM events AS e
WHERE e.run_id = :run_id AND e.seq > :after ORDER BY e.seq LIMIT :limit
"""


def events(tx: Transaction, run_id: UUID) -> Iterator[StoredEvent]:
    """The events of a run in their order, read in pieces."""
    for row in _rows(tx, _EVENTS, run_id, -1, "seq"):
        ordinal = _ordinal(run_id, row.task_run_id)
        yield StoredEvent(row.seq, row.type, ordinal, row.attempt, _data(row.data), row.at)


def _rows(tx: Transaction, statement: str, run_id: UUID, after: Any, key: str) -> Iterator[Any]:
    """All rows of a statement that returns rows after `:after` in the order of `key`, read in pieces."""
    while True:
        rows = tx.execute(statement, {"run_id": run_id, "after": after, "limit": ROWS_AT_ONCE}).all()
        yield from rows
        if len(rows) < ROWS_AT_ONCE:
            return
        after = getattr(rows[-1], key)


def _ordinal(run_id: UUID, task_run_id: UUID | None) -> int | None:
    if task_run_id is None:
        return None
    return ids.ordinal_of(task_run_id) if ids.run_id_of(task_run_id) == run_id else 0


def _data(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_TASK_RUNS = """
SELECT t.id, t.status, t.attempt, t.worker, t.error_code, t.output_hash, t.selected_next, t.map_first,
       t.map_count, t.queued_at IS NOT NULL AS was_released
FROM task_runs AS t WHERE t.run_id = :run_id AND t.id > :after ORDER BY t.id LIMIT :limit
"""


def _task_runs(tx: Transaction, run_id: UUID) -> Iterator[tuple[int, Any]]:
    for row in _rows(tx, _TASK_RUNS, run_id, run_id, "id"):
        yield ids.ordinal_of(row.id), row


_ATTEMPTS = """
SELECT a.task_run_id, a.number, a.status, a.worker, a.error_code FROM attempts AS a
WHERE a.run_id = :run_id AND (a.task_run_id, a.number) > (:after, :number)
ORDER BY a.task_run_id, a.number LIMIT :limit
"""


def _attempts(tx: Transaction, run_id: UUID) -> Iterator[Any]:
    after, number = run_id, 0
    while True:
        parameters = {"run_id": run_id, "after": after, "number": number, "limit": ROWS_AT_ONCE}
        rows = tx.execute(_ATTEMPTS, parameters).all()
        yield from rows
        if len(rows) < ROWS_AT_ONCE:
            return
        after, number = rows[-1].task_run_id, rows[-1].number


# --- comparing --------------------------------------------------------------------------------------------

FIELDS = (
    "status",
    "attempt",
    "was_released",
    "worker",
    "error_code",
    "output_hash",
    "selected_next",
    "map_first",
    "map_count",
)


def _differences(tx: Transaction, run_id: UUID, row: Any, rebuilt: RebuiltRun) -> Iterator[Difference]:
    edits = RunEdits.of_json(row.edits)
    stored = {
        "status": row.status,
        "error_code": row.error_code,
        "has_started": row.started_at is not None,
        "edited_params": tuple(sorted(edits.params)),
        "other_input": tuple(sorted(edits.seen)),
    }
    for name, value in stored.items():
        if value != (expected := getattr(rebuilt, name)):
            yield Difference(run_id, None, name, value, expected)
    yield from (_of_fault(run_id, each) for each in rebuilt.faults)
    expected_task_runs = dict(rebuilt.task_runs)
    for ordinal, each in _task_runs(tx, run_id):
        yield from _of_task_run(run_id, ordinal, each, expected_task_runs.pop(ordinal, None))
    for ordinal, lost in expected_task_runs.items():
        yield Difference(run_id, ids.task_run_id(run_id, ordinal), "row", MISSING, lost.status.value)
    yield from _of_attempts(tx, run_id, dict(rebuilt.attempts))


def _of_task_run(
    run_id: UUID, ordinal: int, row: Any, rebuilt: RebuiltTaskRun | None
) -> Iterator[Difference]:
    task_run_id = ids.task_run_id(run_id, ordinal)
    if rebuilt is None:
        yield Difference(run_id, task_run_id, "row", row.status, MISSING)
        return
    for name in FIELDS:
        stored, expected = _plain(getattr(row, name)), getattr(rebuilt, name)
        if stored != expected:
            yield Difference(run_id, task_run_id, name, stored, expected)


def _of_attempts(
    tx: Transaction, run_id: UUID, expected: dict[tuple[int, int], RebuiltAttempt]
) -> Iterator[Difference]:
    for row in _attempts(tx, run_id):
        key = (ids.ordinal_of(row.task_run_id), row.number)
        stored, rebuilt = RebuiltAttempt(*row[2:]), expected.pop(key, None)
        if stored != rebuilt:
            yield _of_attempt(run_id, key, stored, rebuilt)
    for key, lost in expected.items():
        yield _of_attempt(run_id, key, None, lost)


def _of_attempt(
    run_id: UUID, key: tuple[int, int], stored: RebuiltAttempt | None, rebuilt: RebuiltAttempt | None
) -> Difference:
    ordinal, number = key
    shown = [MISSING if each is None else _shown(each) for each in (stored, rebuilt)]
    return Difference(run_id, ids.task_run_id(run_id, ordinal), f"attempts[{number}]", *shown)


def _shown(attempt: RebuiltAttempt) -> str:
    return f"{attempt.outcome} on {attempt.worker}, {attempt.error_code}"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _of_fault(run_id: UUID, fault: ReplayFault) -> Difference:
    task_run_id = None if not fault.ordinal else ids.task_run_id(run_id, fault.ordinal)
    return Difference(run_id, task_run_id, "event", f"{fault.event.type} ({fault.event.seq})", fault.why)
