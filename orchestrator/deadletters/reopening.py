"""A run goes on from a step that had failed for good: its dead letter is retried.

With the run's row locked, and then its steps', what the failure had stopped is put back: the task run itself
with its next attempt; what was cancelled because the run ended; what was skipped because of the failure; a
map whose items go on. Then the run is decided anew from PostgreSQL, as if all that had never been final. What
completed stays as it is, and so do other failures, each with its own dead letter: joins are decided with
them.

What chords counted before is worth nothing now. What goes on here is not counted (outbox.UNCOUNTED): it asks
PostgreSQL about its joins when it ends. Members that always count themselves find their chord armed anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain.events import ranges, together
from pipeweave.orchestrator.domain.outbox import Chord
from pipeweave.orchestrator.domain.plan import JoinKind, Plan
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import (
    FAILED_TASK,
    FINAL_TASK,
    RELEASED_TASK,
    RunStatus,
    TaskStatus,
    sql_in,
)
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine.advance import RUN_FAILED, Advance
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.runs import deadlines, triggering
from pipeweave.orchestrator.state import run_transitions
from pipeweave.orchestrator.state.cancelling import PREDECESSOR_FAILED
from pipeweave.orchestrator.state.rows import of_row
from pipeweave.orchestrator.state.task_transitions import move_sql
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

T = TaskStatus

# What the end of a run does to what is open in it. A person's cancelling, or a removed task, is not among it.
STOPPED_BY_THE_END = (RUN_FAILED, deadlines.RUN_TIMEOUT, deadlines.RUN_IDLE)


def lock(tx: Transaction, run: RunHeader | None, run_id: UUID) -> RunStatus:
    """Take the run's row; how the run stands.

    Raises:
        Conflict: its history was dropped, or it is not a run that can go on.
    """
    status = None if run is None else run_transitions.lock_status(tx, run_id)
    if status is None:
        raise Conflict(
            f"the history of run {ids.show(ids.RUN, run_id)} was dropped: it cannot go on",
            hint="trigger a new run, and discard the dead letter",
        )
    if status in (RunStatus.FAILED, RunStatus.PARTIAL, RunStatus.RUNNING):
        return status
    was = "was cancelled" if status is RunStatus.CANCELLED else f"is {status}"
    raise Conflict(
        f"run {ids.show(ids.RUN, run_id)} {was}: it does not go on from a dead letter",
        hint="a run goes on from a dead letter while it is running, failed or partial",
    )


def reopen(tx: Transaction, run: RunHeader, status: RunStatus, letters: Mapping[UUID, UUID]) -> list[TaskRun]:
    """Let a run go on from task runs that failed for good.

    Args:
        run: with its row locked.
        status: as `lock` gave it.
        letters: task run -> its dead letter.

    Returns:
        The task runs, each at its next attempt.

    Raises:
        Conflict: one of them did not fail, or a task that has to run is not registered any more.
    """
    failed = _failed(tx, run, letters)
    # An item's own place in the graph is its map's.
    places = [each.ordinal if each.map_parent is None else each.map_parent for each in failed]
    found = what_stopped(run.plan, _steps(tx, run), places)
    runs_again = {run.plan[each].step.task for each in (*places, *found.steps, *found.maps)}
    triggering.runnable(task_rows.tasks(tx, run.tenant, runs_again), runs_again)

    run_transitions.reopen(tx, run.id, status)
    targets = _reopen_failed(tx, run, letters)
    others = _reopen_stopped(tx, run, found.steps)
    _reopen_maps(tx, run, found.maps)
    _go_on(tx, run, status, [*targets, *others], found.maps)
    return targets


# --- what was stopped (pure) ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standing:
    """How a step stands: `is_laid_out` of a map that has its items."""

    status: TaskStatus
    error_code: str | None = None
    is_laid_out: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """What goes back beside the failed task runs: steps to `pending`, maps that have items to `waiting`."""

    steps: tuple[int, ...]
    maps: tuple[int, ...]


def what_stopped(plan: Plan, steps: Mapping[int, Standing], places: Iterable[int]) -> Stopped:
    """What the end of a run and the failures at these places had stopped.

    Args:
        plan: of the run.
        steps: how its steps stand, those left out that are under way.
        places: the failed steps, and the maps of failed items.
    """
    places = set(places)
    back = {each for each, its in steps.items() if _was_stopped_by_the_end(its)}
    back |= {each for each in places if each in steps and steps[each].is_laid_out}
    frontier = [*places, *back]
    while frontier:
        skipped = {
            after
            for after in plan[frontier.pop()].successors
            if after in steps and after not in back and _follows_a_failure(steps[after])
        }
        back |= skipped
        frontier += skipped
    maps = {each for each in back if steps[each].is_laid_out}
    waiting_again = tuple(sorted(each for each in maps if steps[each].status in FINAL_TASK))
    return Stopped(tuple(sorted(back - maps)), waiting_again)


def _was_stopped_by_the_end(standing: Standing) -> bool:
    return standing.status is T.CANCELLED and standing.error_code in STOPPED_BY_THE_END


def _follows_a_failure(standing: Standing) -> bool:
    return standing.status is T.SKIPPED and standing.error_code == PREDECESSOR_FAILED


# --- what there is ----------------------------------------------------------------------------------------

_FAILED = """
SELECT t.id, t.status, t.map_parent FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) ORDER BY t.id FOR UPDATE
"""


@dataclass(frozen=True, slots=True)
class _Failed:
    ordinal: int
    map_parent: int | None


def _failed(tx: Transaction, run: RunHeader, letters: Mapping[UUID, UUID]) -> list[_Failed]:
    rows = tx.execute(_FAILED, {"run_id": run.id, "ids": list(letters)}).all()
    for row in rows:
        if row.status not in FAILED_TASK:
            raise Conflict(f"task run {ids.show(ids.TASK_RUN, row.id)} is {row.status}, it did not fail")
    return [_Failed(ids.ordinal_of(row.id), row.map_parent) for row in rows]


# Locked, so that no join is decided from a failure that is being taken back. What runs has decided nothing.
_STEPS = f"""
SELECT t.id, t.status, t.error_code, t.map_first IS NOT NULL AS is_laid_out FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status NOT IN {sql_in(RELEASED_TASK)}
ORDER BY t.id FOR UPDATE
"""


def _span(run: RunHeader) -> dict[str, Any]:
    first, last = ids.task_run_id(run.id, 1), ids.task_run_id(run.id, len(run.plan.steps))
    return {"run_id": run.id, "first": first, "last": last}


def _steps(tx: Transaction, run: RunHeader) -> dict[int, Standing]:
    rows = tx.execute(_STEPS, _span(run)).all()
    tx.catch_up()
    return {ids.ordinal_of(row.id): Standing(T(row.status), row.error_code, row.is_laid_out) for row in rows}


# --- back to the beginning --------------------------------------------------------------------------------

# With the code, and to the workers, that there are now. An item waits for nothing: it is due.
_ANEW = """, code_version = k.code_version, code_hash = k.code_hash, queue = s.queue,
    due_at = CASE WHEN t.kind = 'item' THEN CAST(:now AS timestamptz) END,
    queued_at = NULL, claimed_at = NULL, started_at = NULL, heartbeat_at = NULL, suspected_at = NULL,
    finished_at = NULL, worker = NULL, awaits = NULL, progress = NULL, progress_message = NULL, error = NULL,
    error_code = NULL"""
_ITS_TASK = """JOIN tasks AS k ON k.tenant_id = o.tenant_id AND k.id = o.task_id
    JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id"""

_MOVED_FAILED = move_sql(
    "moved",
    f"'{T.PENDING.value}'",
    [T.PENDING],
    f", attempt = t.attempt + 1, max_attempts = t.attempt + k.max_attempts{_ANEW}",
    "o.run_id = :run_id AND o.id = l.id AND t.id = l.id",
    source=f"""FROM unnest(CAST(:ids AS uuid[]), CAST(:letters AS text[])) AS l(id, letter)
        CROSS JOIN task_runs AS o {_ITS_TASK}""",
    event="'task_run.reopened'",
    attempt="m.attempt - 1",
    data="jsonb_build_object('nextAttempt', m.attempt, 'deadLetter', m.letter)",
    returning=", l.letter",
    reopens=True,
)
_REOPEN_FAILED = f"WITH {_MOVED_FAILED} SELECT * FROM moved"


def _reopen_failed(tx: Transaction, run: RunHeader, letters: Mapping[UUID, UUID]) -> list[TaskRun]:
    shown = [ids.show(ids.DEAD_LETTER, each) for each in letters.values()]
    parameters = {"run_id": run.id, "ids": list(letters), "letters": shown, "now": tx.now}
    return [of_row(row) for row in tx.execute(_REOPEN_FAILED, parameters)]


# One that had started is followed by its next attempt: a late report of the one before finds no row. Nothing
# was wrong with it, so it uses up no attempt.
_MOVED_STOPPED = move_sql(
    "moved",
    f"'{T.PENDING.value}'",
    [T.PENDING],
    f""", attempt = t.attempt + CASE WHEN o.started_at IS NULL THEN 0 ELSE 1 END,
    max_attempts = t.max_attempts + CASE WHEN o.started_at IS NULL THEN 0 ELSE 1 END{_ANEW}""",
    """t.id = o.id AND o.run_id = :run_id AND (o.id = ANY(CAST(:ids AS uuid[]))
        OR o.kind = 'item' AND o.status = 'cancelled' AND o.error_code = ANY(CAST(:codes AS text[])))""",
    source=f"FROM task_runs AS o {_ITS_TASK}",
    returning=""", o.started_at AS begun_at, o.worker AS ended_by, o.code_version AS ended_version,
        o.error AS ended_error, o.error_code AS ended_code, o.finished_at AS ended_at""",
    reopens=True,
)
_REOPEN_STOPPED = f"""
WITH {_MOVED_STOPPED}, archived AS (
    INSERT INTO attempts (run_id, task_run_id, number, status, worker, code_version, error, error_code,
        started_at, finished_at)
    SELECT m.run_id, m.id, m.attempt - 1, 'cancelled', m.ended_by, m.ended_version, m.ended_error,
        m.ended_code, m.begun_at, m.ended_at
    FROM moved AS m WHERE m.begun_at IS NOT NULL
)
SELECT * FROM moved
"""


def _reopen_stopped(tx: Transaction, run: RunHeader, steps: Sequence[int]) -> list[TaskRun]:
    parameters = {
        "run_id": run.id,
        "ids": [ids.task_run_id(run.id, each) for each in steps],
        "codes": list(STOPPED_BY_THE_END),
        "now": tx.now,
    }
    rows: list[Any] = list(tx.execute(_REOPEN_STOPPED, parameters))
    moved = [of_row(row) for row in rows]
    bumped = ranges(ids.ordinal_of(row.id) for row in rows if row.begun_at is not None)
    append(tx, together("task_runs.reopened", moved, bumped=bumped))
    return moved


_MOVED_MAPS = move_sql(
    "moved",
    f"'{T.WAITING.value}'",
    [T.WAITING],
    ", attempt = t.attempt + 1, max_attempts = t.max_attempts + 1, finished_at = NULL, error = NULL,"
    " error_code = NULL",
    "t.id = ANY(CAST(:ids AS uuid[])) AND t.kind = 'map' AND t.map_first IS NOT NULL",
    event="'task_run.reopened'",
    attempt="m.attempt - 1",
    data="jsonb_build_object('nextAttempt', m.attempt, 'status', m.status)",
    reopens=True,
)
_REOPEN_MAPS = f"WITH {_MOVED_MAPS} SELECT count(*) FROM moved"


def _reopen_maps(tx: Transaction, run: RunHeader, maps: Sequence[int]) -> None:
    if maps:
        which = [ids.task_run_id(run.id, each) for each in maps]
        tx.execute(_REOPEN_MAPS, {"run_id": run.id, "ids": which, "now": tx.now})


# --- going on ---------------------------------------------------------------------------------------------


def _go_on(
    tx: Transaction, run: RunHeader, status: RunStatus, reopened: Sequence[TaskRun], maps: Sequence[int]
) -> None:
    advance = Advance(tx, run, queue=reopened[0].queue, is_counted=False, is_reopening=True)
    advance.again([each.id for each in reopened if each.kind == "item"])
    advance.decide(sorted(each.ordinal for each in reopened if each.kind != "item"))
    for each in maps:
        advance.check(each)
    _arm_chords(tx, run, {each.ordinal for each in reopened}.union(maps), was_over=status.is_final)
    advance.close()


# --- chords -----------------------------------------------------------------------------------------------

_OPEN = """
SELECT t.id, t.is_limited OR t.kind = 'map' AS counts_itself FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
"""
_OPEN_ITEMS = """
SELECT t.map_parent AS parent, count(*) AS number FROM task_runs AS t
WHERE t.run_id = :run_id AND t.kind = 'item' AND t.is_limited AND t.finished_at IS NULL
GROUP BY t.map_parent
"""


def _arm_chords(tx: Transaction, run: RunHeader, reopened: Collection[int], *, was_over: bool) -> None:
    """Size chords anew whose members count themselves: of what was reopened, and of what is open beside it.

    While the run goes on, messages may be out that count for its gathered joins and maps: those chords are
    left alone. Their members, at a later attempt now, ask about the join as well.
    """
    wide = {join: kind for join, kind in run.plan.joins.items() if kind.is_wide}
    if wide:
        opened = {ids.ordinal_of(row.id): row.counts_itself for row in tx.execute(_OPEN, _span(run))}
        for join, kind in wide.items():
            members = [each for each in run.plan.predecessors(join) if each in opened]
            if kind is JoinKind.GATHERED:
                members = [each for each in members if was_over and opened[each]]
            if any(each in reopened for each in members):
                tx.send(Chord(run.id, join, len(members)))
    if was_over and any(each > len(run.plan.steps) for each in reopened):
        for row in tx.execute(_OPEN_ITEMS, {"run_id": run.id}):
            tx.send(Chord(run.id, row.parent, row.number))
