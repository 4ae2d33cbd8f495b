"""Reopens a run when a dead letter of one of its steps is retried.

This locks the run's row, then the rows of its steps, and moves these task runs back: the failed task run, to
its next attempt; task runs that were cancelled because the run ended; steps that were skipped because of the
failure; and the map of a failed item. Then it decides again from PostgreSQL what runs next. Completed task
runs stay as they are. So do other failures, each with its own dead letter: joins take them into account.

Chord counts from before are no longer valid. Messages of the reopened task runs are not counted
(outbox.UNCOUNTED): when such a task run ends, it checks its joins in PostgreSQL. Chords whose members count
themselves (limited task runs, maps) are sized again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.domain import kind_sql, queue_names
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
from pipeweave.orchestrator.domain.triggered_by import BY_REQUEST, REDRIVE, TriggeredBy
from pipeweave.orchestrator.engine.advance import RUN_FAILED, Advance
from pipeweave.orchestrator.engine.chords import Counting
from pipeweave.orchestrator.registry import task_rows
from pipeweave.orchestrator.runs import deadlines, triggering
from pipeweave.orchestrator.state import run_transitions
from pipeweave.orchestrator.state.cancelling import PREDECESSOR_FAILED
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.state.rows import of_row
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append
from pipeweave.spec import CHILD_TASKS, ENGINE, ITEMS, STEPS
from pipeweave.spec.engine_results import PARALLEL_FAILED

T = TaskStatus

# Error codes of task runs that were cancelled because their run ended; not of those that a person cancelled,
# or that lost their task.
STOPPED_BY_THE_END = (RUN_FAILED, deadlines.RUN_TIMEOUT, deadlines.RUN_IDLE)


def lock_run(tx: Transaction, run: RunHeader | None, run_id: UUID) -> RunStatus:
    """Lock the run's row and return its status.

    Raises:
        Conflict: the run's history was dropped, or the run is not running, failed or partial.
    """
    status = None if run is None else run_transitions.lock_status(tx, run_id)
    if status is None:
        raise Conflict(
            f"the history of run {ids.show(ids.RUN, run_id)} was deleted, so the run cannot continue",
            hint="trigger a new run, and discard the dead letter",
        )
    if status in (RunStatus.FAILED, RunStatus.PARTIAL, RunStatus.RUNNING):
        return status
    was = "was cancelled" if status is RunStatus.CANCELLED else f"is {status}"
    raise Conflict(
        f"run {ids.show(ids.RUN, run_id)} {was}, so it cannot continue from a dead letter",
        hint="only a run that is running, failed or partial continues from a dead letter",
    )


def reopen(
    tx: Transaction,
    run: RunHeader,
    status: RunStatus,
    letters: Mapping[UUID, UUID],
    cause: TriggeredBy = BY_REQUEST,
) -> list[TaskRun]:
    """Let a run go on from task runs that have dead letters.

    Args:
        run: the run; its row must be locked.
        status: as `lock_run` returned it.
        letters: task run id -> dead letter id.
        cause: who or what retries them.

    Returns:
        These task runs, each at its next attempt.

    Raises:
        Conflict: a task run did not fail, or a task that has to run is no longer registered.
    """
    failed = _failed(tx, run, letters)
    # In the graph, an item stands at the place of its map.
    places = [each.place for each in failed]
    steps = _steps(tx, run)
    _refuse_handled(run, steps, places)
    stopped = find_stopped(run.plan, steps, places)
    again = [run.plan[each].step for each in (*places, *stopped.steps, *stopped.maps)]
    runs_again = {each.task for each in again if each.has_task}
    triggering.runnable(task_rows.tasks(tx, run.tenant, runs_again), runs_again)

    run_transitions.reopen(tx, run.id, status, cause.actor)
    targets = _reopen_failed(tx, run, failed, letters, cause)
    others = _reopen_stopped(tx, run, stopped.steps)
    _reopen_maps(tx, run, stopped.maps)
    _advance(tx, run, status, [*targets, *others], stopped.maps, queue=targets[0].queue)
    return targets


# --- stopped steps (pure) ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepToReopen:
    """The state of a step. `is_laid_out` is True for a map whose items exist."""

    status: TaskStatus
    error_code: str | None = None
    is_laid_out: bool = False


@dataclass(frozen=True, slots=True)
class StoppedSteps:
    """Steps to move back besides the failed task runs: `steps` to pending, `maps` with items to waiting."""

    steps: tuple[int, ...]
    maps: tuple[int, ...]


def find_stopped(plan: Plan, steps: Mapping[int, StepToReopen], places: Iterable[int]) -> StoppedSteps:
    """Find the steps that the end of the run and the failures at these places had stopped.

    Args:
        plan: the plan of the run.
        steps: ordinal -> state of its steps; steps that are ready, queued or running may be left out.
        places: ordinals of the failed steps, and of the maps of failed items.
    """
    places = set(places)
    back = {each for each, state in steps.items() if _was_stopped_by_the_end(state)}
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
    return StoppedSteps(tuple(sorted(back - maps)), waiting_again)


def _was_stopped_by_the_end(step: StepToReopen) -> bool:
    return step.status is T.CANCELLED and step.error_code in STOPPED_BY_THE_END


def _follows_a_failure(step: StepToReopen) -> bool:
    """It was skipped because of a failure, or is a gather that tells of one."""
    if step.status is T.FAILED:
        return step.error_code == PARALLEL_FAILED
    return step.status is T.SKIPPED and step.error_code == PREDECESSOR_FAILED


# --- reading and locking ----------------------------------------------------------------------------------

_FAILED = f"""
SELECT t.id, t.status, t.map_parent FROM {NAMED} JOIN task_runs AS t ON {by_key()}
ORDER BY t.id FOR UPDATE OF t
"""


@dataclass(frozen=True, slots=True)
class _FailedTaskRun:
    """A failed task run; `place` is the ordinal of its step, or of the map of an item."""

    id: UUID
    place: int


def _failed(tx: Transaction, run: RunHeader, letters: Mapping[UUID, UUID]) -> list[_FailedTaskRun]:
    rows = tx.execute(_FAILED, {"run_id": run.id, "ids": list(letters)}).all()
    for row in rows:
        if row.status not in FAILED_TASK:
            raise Conflict(
                f"task run {ids.show(ids.TASK_RUN, row.id)} is {row.status}, so it cannot be retried"
            )
    return [_FailedTaskRun(row.id, row.map_parent or ids.ordinal_of(row.id)) for row in rows]


# Locked, so that no join is decided from a failure that is being undone. Released task runs are left out,
# because they have decided nothing yet.
_STEPS = f"""
SELECT t.id, t.status, t.error_code, t.map_first IS NOT NULL AS is_laid_out FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.status NOT IN {sql_in(RELEASED_TASK)}
ORDER BY t.id FOR UPDATE
"""


def _step_bounds(run: RunHeader) -> dict[str, Any]:
    first, last = ids.task_run_id(run.id, 1), ids.task_run_id(run.id, len(run.plan.steps))
    return {"run_id": run.id, "first": first, "last": last}


def _steps(tx: Transaction, run: RunHeader) -> dict[int, StepToReopen]:
    rows = tx.execute(_STEPS, _step_bounds(run)).all()
    tx.catch_up()
    return {
        ids.ordinal_of(row.id): StepToReopen(T(row.status), row.error_code, row.is_laid_out) for row in rows
    }


def _refuse_handled(run: RunHeader, steps: Mapping[int, StepToReopen], places: Iterable[int]) -> None:
    """Refuse items of maps of whose error a run takes care: the map does not wait for them any more."""
    for each in places:
        state = steps.get(each)
        if state is not None and state.status is T.WAITING and state.error_code is not None:
            raise Conflict(
                f"the error of step {run.plan[each].id} is being taken care of",
                hint="wait until the run that does has ended",
            )


# --- moving task runs back --------------------------------------------------------------------------------

_CHILD_TASKS = ", ".join(f"'{each}'" for each in sorted(CHILD_TASKS))
_HAS_CHILD = f"t.task_id IN ({_CHILD_TASKS})"
# An item waits for no predecessor: it is due.
# One that has a child run waits for its turn in its map.
_CLEARED = f""", due_at = CASE WHEN {kind_sql.IS_ITEM} AND NOT {_HAS_CHILD}
        THEN CAST(:now AS timestamptz) END,
    queued_at = NULL, claimed_at = NULL, started_at = NULL, heartbeat_at = NULL, suspected_at = NULL,
    finished_at = NULL, worker = NULL, awaits = NULL, progress = NULL, progress_message = NULL, error = NULL,
    error_code = NULL, dispatched_at = NULL, logs_path = NULL"""
# The task's current code version and its service's current queue.
_ANEW = f""", code_version = k.code_version, code_hash = k.code_hash,
    is_limited = k.concurrency > 0 OR k.rate_limit IS NOT NULL,
    queue = {queue_names.queue_sql()}{_CLEARED}"""
_ITS_SERVICE = "JOIN services AS s ON s.tenant_id = k.tenant_id AND s.id = k.service_id"
_IS_OF_TASK = "k.tenant_id = t.tenant_id AND k.id = t.task_id"
# A map of child runs, and its items, run no task either.
_IS_OF_ENGINE = f"({kind_sql.kind_in(ENGINE)} OR {_HAS_CHILD})"


def _moved_failed(changes: str, where: str, source: str = "") -> str:
    moved = Move(
        to=T.PENDING,
        changes=f", attempt = t.attempt + 1{changes}",
        rows=by_key("l.id"),
        where=where,
        source=f"""FROM unnest(CAST(:ids AS uuid[]), CAST(:letters AS text[]), CAST(:tries AS integer[]))
            AS l(id, letter, tries){source}""",
        event=MoveEvent(
            "'task_run.reopened'",
            """jsonb_strip_nulls(jsonb_build_object('nextAttempt', m.attempt, 'deadLetter', m.letter,
                'redrive', CAST(:redrive AS text), 'by', CAST(:by AS text)))""",
            attempt="m.attempt - 1",
        ),
        returning=", l.letter",
        reopens=True,
    )
    return f"WITH {moved.sql} SELECT * FROM moved"


# As many further attempts as its step says, or else its task.
_REOPEN_FAILED = _moved_failed(
    f", max_attempts = t.attempt + coalesce(l.tries, k.max_attempts){_ANEW}",
    _IS_OF_TASK,
    f" CROSS JOIN tasks AS k {_ITS_SERVICE}",
)
_REOPEN_FAILED_OF_ENGINE = _moved_failed(f", max_attempts = t.attempt + 1{_CLEARED}", _IS_OF_ENGINE)


def _reopen_failed(
    tx: Transaction,
    run: RunHeader,
    failed: Sequence[_FailedTaskRun],
    letters: Mapping[UUID, UUID],
    cause: TriggeredBy,
) -> list[TaskRun]:
    shown = [ids.show(ids.DEAD_LETTER, each) for each in letters.values()]
    # A dead letter that is retried by itself is its own cause.
    redrive = cause.id if cause.kind == REDRIVE and cause.id not in shown else None
    steps = {each.id: run.plan[each.place].step for each in failed}
    tries = [None if (own := steps[each].retry) is None else own.attempts for each in letters]
    parameters = {
        "run_id": run.id,
        "ids": list(letters),
        "letters": shown,
        "tries": tries,
        "now": tx.now,
        "redrive": redrive,
        "by": cause.actor,
    }
    moved: list[Any] = []
    if any(each.has_task for each in steps.values()):
        moved += tx.execute(_REOPEN_FAILED, parameters)
    if any(not each.has_task for each in steps.values()):
        moved += tx.execute(_REOPEN_FAILED_OF_ENGINE, parameters)
    return [of_row(row) for row in moved]


# One look at the run, and no join of it with itself or with a list: where PostgreSQL has never seen a
# cancelled item it expects none, and would compare each with each other one.
_STOPPED = f"""t.run_id = :run_id AND (t.id = ANY(CAST(:ids AS uuid[]))
    OR {kind_sql.IS_ITEM} AND t.status = 'cancelled' AND t.error_code = ANY(CAST(:codes AS text[])))"""

# One that was stopped while a run took care of its error has the record of its attempt: that stays.
_ARCHIVE_STOPPED = f"""
INSERT INTO attempts (run_id, task_run_id, number, status, worker, code_version, error, error_code,
    started_at, finished_at)
SELECT t.run_id, t.id, t.attempt, 'cancelled', t.worker, t.code_version, t.error, t.error_code, t.started_at,
    t.finished_at
FROM task_runs AS t WHERE {_STOPPED} AND t.started_at IS NOT NULL
ON CONFLICT (run_id, task_run_id, number) DO UPDATE SET number = EXCLUDED.number
RETURNING task_run_id
"""

# A stopped task run that had started gets its next attempt number, so that a late report of the old attempt
# finds no row. It had not failed, so `max_attempts` grows by one, too.


def _moved_stopped(changes: str, where: str, source: str = "") -> str:
    moved = Move(
        to=T.PENDING,
        changes=f""", attempt = t.attempt + CASE WHEN t.started_at IS NULL THEN 0 ELSE 1 END,
    max_attempts = t.max_attempts + CASE WHEN t.started_at IS NULL THEN 0 ELSE 1 END{changes}""",
        rows=_STOPPED,
        where=where,
        source=source,
        reopens=True,
    )
    return f"WITH {moved.sql} SELECT * FROM moved"


_REOPEN_STOPPED = _moved_stopped(_ANEW, _IS_OF_TASK, f"FROM tasks AS k {_ITS_SERVICE}")
_REOPEN_STOPPED_OF_ENGINE = _moved_stopped(_CLEARED, _IS_OF_ENGINE)


def _reopen_stopped(tx: Transaction, run: RunHeader, steps: Sequence[int]) -> list[TaskRun]:
    parameters = {
        "run_id": run.id,
        "ids": [ids.task_run_id(run.id, each) for each in steps],
        "codes": list(STOPPED_BY_THE_END),
        "now": tx.now,
    }
    # The run's row is locked, so both statements find the same task runs.
    begun: list[Any] = list(tx.execute(_ARCHIVE_STOPPED, parameters))
    rows: list[Any] = list(tx.execute(_REOPEN_STOPPED, parameters))
    if run.plan.has_children or any(not run.plan[each].step.has_task for each in steps):
        rows += tx.execute(_REOPEN_STOPPED_OF_ENGINE, parameters)
    moved = [of_row(row) for row in rows]
    bumped = ranges(ids.ordinal_of(row.task_run_id) for row in begun)
    append(tx, together("task_runs.reopened", moved, bumped=bumped))
    return moved


def _moved_to_wait(where: str) -> str:
    """SQL: ended task runs wait again, in another attempt, for what goes on behind them.

    A map of which an error was handled has the output of what did that: its output is that of its items now.
    """
    return Move(
        to=T.WAITING,
        changes=""", attempt = t.attempt + 1, max_attempts = t.max_attempts + 1, finished_at = NULL,
    error = NULL, error_code = NULL,
    output = NULL, output_path = NULL, output_size = NULL, output_hash = NULL""",
        source=f"FROM {NAMED}",
        rows=by_key(),
        where=where,
        event=MoveEvent(
            "'task_run.reopened'",
            "jsonb_build_object('nextAttempt', m.attempt, 'status', m.status)",
            attempt="m.attempt - 1",
        ),
        reopens=True,
    ).sql


_MOVED_MAPS = _moved_to_wait(f"{kind_sql.HAS_ITEMS} AND t.map_first IS NOT NULL")
_REOPEN_MAPS = f"WITH {_MOVED_MAPS} SELECT count(*) FROM moved"


def _reopen_maps(tx: Transaction, run: RunHeader, maps: Sequence[int]) -> None:
    if maps:
        map_ids = [ids.task_run_id(run.id, each) for each in maps]
        tx.execute(_REOPEN_MAPS, {"run_id": run.id, "ids": map_ids, "now": tx.now})


_WAITS_AGAIN = _moved_to_wait(f"t.status = 'failed' AND {_HAS_CHILD}")
_WAIT_AGAIN = f"WITH {_WAITS_AGAIN} SELECT * FROM moved"


def wait_again(
    tx: Transaction, run: RunHeader, status: RunStatus, task_run: TaskRun, cause: TriggeredBy
) -> TaskRun:
    """Let a run go on whose step, or item, waits again for its child, which goes on, too.

    Args:
        run: the run; its row must be locked.
        status: as `lock_run` returned it.
        task_run: it failed because its child did.
        cause: who or what retries a dead letter of the child.

    Returns:
        The task run, at its next attempt. Who calls writes its wait.
    """
    place = task_run.map_parent or task_run.ordinal
    stopped = find_stopped(run.plan, _steps(tx, run), [place])
    run_transitions.reopen(tx, run.id, status, cause.actor)
    parameters = {"run_id": run.id, "ids": [task_run.id], "now": tx.now}
    waiting = of_row(tx.execute(_WAIT_AGAIN, parameters).one())
    others = _reopen_stopped(tx, run, stopped.steps)
    _reopen_maps(tx, run, stopped.maps)
    if others or stopped.maps:
        _advance(tx, run, status, others, stopped.maps, queue=waiting.queue)
    return waiting


# --- advancing the run ------------------------------------------------------------------------------------


def _advance(
    tx: Transaction,
    run: RunHeader,
    status: RunStatus,
    reopened: Sequence[TaskRun],
    maps: Sequence[int],
    *,
    queue: str,
) -> None:
    advance = Advance(tx, run, queue=queue, counting=Counting.REOPENED)
    due = [each for each in reopened if each.kind in ITEMS and each.task_id not in CHILD_TASKS]
    advance.release_due([each.id for each in due])
    advance.decide(sorted(each.ordinal for each in reopened if each.kind in STEPS))
    for each in maps:
        advance.check(each)
    _arm_chords(tx, run, {each.ordinal for each in reopened}.union(maps), was_over=status.is_final)
    advance.close()


# --- chords -----------------------------------------------------------------------------------------------

_ENDS_ON_ITS_OWN = f"(t.is_limited OR {queue_names.is_dispatch_sql('t.queue')})"
_OPEN = f"""
SELECT t.id, {_ENDS_ON_ITS_OWN} OR {kind_sql.HAS_ITEMS} AS counts_itself FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last AND t.finished_at IS NULL
"""
_OPEN_ITEMS = f"""
SELECT t.map_parent AS parent, count(*) AS number FROM task_runs AS t
WHERE t.run_id = :run_id AND {kind_sql.IS_ITEM} AND {_ENDS_ON_ITS_OWN} AND t.finished_at IS NULL
GROUP BY t.map_parent
"""


def _arm_chords(tx: Transaction, run: RunHeader, reopened: Collection[int], *, was_over: bool) -> None:
    """Size the chords again whose members count themselves, reopened members and other open ones.

    If the run had not ended, messages that count for its gathered joins and maps may still be out: those
    chords are left alone. Their reopened members are at a later attempt, and check the join themselves.
    """
    wide = {join: kind for join, kind in run.plan.joins.items() if kind.is_wide}
    if wide:
        opened = {ids.ordinal_of(row.id): row.counts_itself for row in tx.execute(_OPEN, _step_bounds(run))}
        for join, kind in wide.items():
            members = [each for each in run.plan.predecessors(join) if each in opened]
            if kind is JoinKind.GATHERED:
                members = [each for each in members if was_over and opened[each]]
            if any(each in reopened for each in members):
                tx.send(Chord(run.id, join, len(members)))
    if was_over and any(each > len(run.plan.steps) for each in reopened):
        for row in tx.execute(_OPEN_ITEMS, {"run_id": run.id}):
            tx.send(Chord(run.id, row.parent, row.number))
