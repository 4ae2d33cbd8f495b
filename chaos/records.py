"""Read the final rows from PostgreSQL with the test's own statements, as plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from chaos.catalogue import CALLED, PLENTY, without_padding
from chaos.stack import Stack
from pipeweave import ids


@dataclass(frozen=True, slots=True)
class Run:
    """Times are seconds since the epoch. Of a run that an end started, the token is `event:` and that run.

    Args:
        parent: the run that it belongs to; None for one of its own.
        waiter: the task run of that run that waits for it.
        is_quiet: it has the mark of runs of which nothing works.
    """

    id: str
    token: str | None
    pipeline_id: str
    mode: str
    status: str
    created: float = 0.0
    finished: float | None = None
    parent: str | None = None
    waiter: str | None = None
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class Fire:
    """A due time of a schedule, in ms since the epoch, and what became of it."""

    schedule: str
    at: int
    outcome: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class HookFire:
    """What became of the hook of a run that ended."""

    id: str
    run_id: str
    outcome: str
    attempts: int


@dataclass(frozen=True, slots=True)
class OddRow:
    """What became of a row of enqueued runs that nobody can read."""

    id: str
    is_settled: bool
    error_code: str | None


@dataclass(frozen=True, slots=True)
class TaskRun:
    """Times are seconds since the epoch."""

    id: str
    run_id: str
    step_id: str
    task_id: str
    kind: str
    map_index: int | None
    status: str
    attempt: int
    code: str | None
    # Without what makes it large, wherever it is stored.
    output: Any
    finished: float | None
    max_attempts: int = PLENTY
    # The task run whose result it took over, instead of being called.
    cached_from: str | None = None

    @property
    def is_called(self) -> bool:
        """Whether somebody calls a task for it: not for a map, nor for what the engine decides itself."""
        return self.kind != "map" and self.task_id in CALLED


@dataclass(frozen=True, slots=True)
class Attempt:
    """A recorded attempt, which failed."""

    task_run_id: str
    number: int
    status: str
    code: str | None
    worker: str | None
    finished: float


@dataclass(frozen=True, slots=True)
class Event:
    """`at` is the time of its transaction."""

    run_id: str
    at: float
    seq: int
    type: str
    task_run_id: str | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class BegunWait:
    """A wait that began, by its event. Times are seconds since the epoch.

    Args:
        seq: of the event.
        kind: `timer`, `signal`, `approval`, `callback`, `poll` or `child`.
        names: of the signals that end it.
        timeout_at: when it ends whatever comes; None for never.
    """

    run_id: str
    task_run_id: str
    attempt: int
    at: float
    seq: int
    kind: str
    names: tuple[str, ...] = ()
    timeout_at: float | None = None


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A stored signal: one of a run, a vote, a report, or an answer to a poll. Times are seconds since the
    epoch.

    Args:
        run_id: the root run.
        payload: None where it is in storage.
        taken_by: the task run whose wait took it.
    """

    id: str
    run_id: str
    name: str
    once: str
    payload: Any
    sent_by: str | None
    sent_at: float
    taken_by: str | None = None
    taken_at: float | None = None


@dataclass(slots=True)
class Records:
    """All stored rows, with ids as the API shows them."""

    runs: dict[str, Run]
    task_runs: dict[str, TaskRun]
    attempts: dict[str, dict[int, Attempt]]
    events: list[Event]
    # The number of dead letters by task run.
    dead_letters: Mapping[str, int]
    # The differences between events and rows, as text.
    differences: list[str] = field(default_factory=list)
    fires: list[Fire] = field(default_factory=list)
    hook_fires: list[HookFire] = field(default_factory=list)
    odd_rows: list[OddRow] = field(default_factory=list)
    begun_waits: list[BegunWait] = field(default_factory=list)
    signals: list[SentSignal] = field(default_factory=list)
    # The task runs that have a wait in the end.
    waits: list[str] = field(default_factory=list)

    def of_run(self) -> dict[str, list[TaskRun]]:
        """The task runs of each run."""
        found: dict[str, list[TaskRun]] = defaultdict(list)
        for each in self.task_runs.values():
            found[each.run_id].append(each)
        return found


_RUNS = """
SELECT id, run_token, pipeline_id, failure_mode, status, extract(epoch FROM created_at)::float8,
       extract(epoch FROM finished_at)::float8, parent_run_id, parent_task_run_id, quiet_since IS NOT NULL
FROM runs ORDER BY id
"""
_STARTED_BY_EVENTS = "SELECT started_run_id, run_id FROM event_fires WHERE started_run_id IS NOT NULL"
_HOOK_FIRES = "SELECT id, run_id, outcome, attempts FROM hook_fires ORDER BY id"
_ODD_ROWS = (
    "SELECT id, settled_at IS NOT NULL, error_code FROM enqueued_runs WHERE id = ANY(CAST(%s AS uuid[]))"
)
_FIRES = """
SELECT schedule_id, CAST(extract(epoch FROM scheduled_at) * 1000 AS bigint), outcome, run_id
FROM schedule_fires ORDER BY schedule_id, scheduled_at
"""
_TASK_RUNS = """
SELECT id, run_id, step_id, task_id, kind, map_index, status, attempt, error_code, output,
       extract(epoch FROM finished_at)::float8, max_attempts, cached_from, output_path FROM task_runs
ORDER BY id
"""
_ATTEMPTS = """
SELECT task_run_id, number, status, error_code, worker, extract(epoch FROM finished_at)::float8
FROM attempts ORDER BY task_run_id, number
"""
_EVENTS = """
SELECT run_id, extract(epoch FROM at)::float8, seq, type, task_run_id, attempt FROM events
ORDER BY run_id, seq
"""
_BEGUN_WAITS = """
SELECT run_id, task_run_id, attempt, extract(epoch FROM at)::float8, seq, data ->> 'kind', data -> 'names',
       extract(epoch FROM CAST(data ->> 'timeoutAt' AS timestamptz))::float8 FROM events
WHERE type = 'task_run.waiting' AND data ->> 'kind' IS NOT NULL ORDER BY seq
"""
_SIGNALS = """
SELECT id, run_id, name, once, payload, sent_by, extract(epoch FROM sent_at)::float8, taken_by,
       extract(epoch FROM taken_at)::float8 FROM signals ORDER BY run_id, id
"""
_WAITS = "SELECT task_run_id FROM waits ORDER BY task_run_id"
_DEAD_LETTERS = "SELECT task_run_id, count(*) FROM dead_letters GROUP BY task_run_id"


def read(up: Stack) -> Records:
    """Read all rows."""
    attempts: dict[str, dict[int, Attempt]] = defaultdict(dict)
    for row in up.rows(_ATTEMPTS):
        each = Attempt(_task_run(row[0]), *row[1:])
        attempts[each.task_run_id][each.number] = each
    return Records(
        {each.id: each for each in _runs(up)},
        {each.id: each for each in _task_runs(up)},
        dict(attempts),
        list(read_events(up)),
        {_task_run(row[0]): row[1] for row in up.rows(_DEAD_LETTERS)},
        differences(up.database.url),
        [Fire(row[0], row[1], row[2], row[3] and _run(row[3])) for row in up.rows(_FIRES)],
        [HookFire(row[0], _run(row[1]), *row[2:]) for row in up.rows(_HOOK_FIRES)],
        [OddRow(_run(row[0]), *row[1:]) for row in up.rows(_ODD_ROWS, list(map(str, up.odd_rows)))],
        list(_begun_waits(up)),
        list(_signals(up)),
        [_task_run(row[0]) for row in up.rows(_WAITS)],
    )


def _runs(up: Stack) -> Iterator[Run]:
    causes = dict(up.rows(_STARTED_BY_EVENTS))
    for row in up.rows(_RUNS):
        token = f"event:{_run(causes[row[0]])}" if row[0] in causes else row[1]
        yield Run(_run(row[0]), token, *row[2:7], **_inside(*row[7:]))


def _inside(parent: Any, waiter: Any, is_quiet: bool) -> dict[str, Any]:
    shown = None if parent is None else _run(parent)
    return {"parent": shown, "waiter": _task_run(waiter), "is_quiet": is_quiet}


def read_events(up: Stack) -> Iterator[Event]:
    """The events of all runs."""
    for run_id, at, seq, type, task_run_id, attempt in up.rows(_EVENTS):
        yield Event(_run(run_id), at, seq, type, _task_run(task_run_id), attempt)


def _begun_waits(up: Stack) -> Iterator[BegunWait]:
    for run_id, task_run_id, attempt, at, seq, kind, names, timeout_at in up.rows(_BEGUN_WAITS):
        of = _run(run_id), _task_run(task_run_id), attempt
        yield BegunWait(*of, at, seq, kind, tuple(names or ()), timeout_at)


def _signals(up: Stack) -> Iterator[SentSignal]:
    for row in up.rows(_SIGNALS):
        id = ids.show(ids.SIGNAL, UUID(str(row[0])))
        name, once, payload, sent_by, sent_at, taken_by, taken_at = row[2:]
        sent = name, once, payload, sent_by, sent_at
        yield SentSignal(id, _run(row[1]), *sent, _task_run(taken_by), taken_at)


def _task_runs(up: Stack) -> Iterator[TaskRun]:
    values = up.store.values()
    for row in up.rows(_TASK_RUNS):
        found = TaskRun(_task_run(row[0]), _run(row[1]), *row[2:12])
        output = without_padding(values.load(found.output, row[13]))
        yield replace(found, output=output, cached_from=_task_run(row[12]))


def keep(up: Stack, folder: Path) -> None:
    """Write every row into one file per table, for the search for causes."""
    tables = (
        *("runs", "task_runs", "attempts", "events", "dead_letters", "workers", "tasks"),
        *("schedule_fires", "event_fires", "hook_fires", "enqueued_runs", "waits", "signals"),
    )
    for table in tables:
        rows = up.rows(f"SELECT row_to_json(t)::text FROM {table} AS t")
        (folder / f"{table}.jsonl").write_text("".join(f"{row[0]}\n" for row in rows))


def differences(database_url: str) -> list[str]:
    """Run the product's own comparison of events and rows, and return its differences."""
    from pipeweave.orchestrator.diagnosis import verify
    from pipeweave.orchestrator.store import Database

    database = Database(database_url, pool_size=0)
    with verify.snapshot(database) as tx:
        return [str(each) for each in verify.all_runs(tx)]


def _run(value: Any) -> str:
    return ids.show(ids.RUN, UUID(str(value)))


def _task_run(value: Any) -> Any:
    return None if value is None else ids.show(ids.TASK_RUN, UUID(str(value)))
