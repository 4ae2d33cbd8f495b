"""Task-run verbs. Each is one guarded UPDATE: it moves the rows that may move and says which did.

A late worker, a doubled message and a racing cancel all end the same way: the row does not change and is
not in the answer. The guard is always id, attempt and the statuses that `states.py` allows; nothing else
writes a status. Verbs take many rows of one run at once, because work is small and statements are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import COLUMNS, Completion, TaskRun, read
from pipeweave.orchestrator.state import keys_released, run_headers
from pipeweave.orchestrator.state.run_headers import RunHeader
from pipeweave.orchestrator.state.task_transitions import move, move_sql, status_is, together
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.event_log import append

T = TaskStatus


def _ids(run_id: UUID, ordinals: Iterable[int]) -> list[UUID]:
    return [ids.task_run_id(run_id, each) for each in ordinals]


# --- on the way to a worker -------------------------------------------------------------------------------


def is_paused(tenant: str, task: str) -> str:
    """SQL: whether someone paused this task, or its whole tenant. The table is nearly always empty, and then
    the first look is all there is, once a statement.
    """
    return f"""(EXISTS (SELECT 1 FROM pauses) AND EXISTS (
        SELECT 1 FROM pauses AS p WHERE p.tenant_id = {tenant} AND p.task_id IN ('', {task})))"""


IS_PAUSED = is_paused("t.tenant_id", "t.task_id")


def held(is_paused: str) -> str:
    """SQL: whether the task run `t` is held, where this says whether it is paused."""
    return f"(t.is_limited OR {is_paused})"


# What is to go becomes `ready` instead of `queued` or `running`: a limit or a person decides when. Each
# statement that lets task runs go asks for itself, so that nothing slips in behind an earlier look.
HELD = held(IS_PAUSED)

STARTED = {"event": "'task_run.started'", "data": "jsonb_build_object('worker', CAST(:worker AS text))"}
# Usually a claim finds a row queued. An event that left another status says so, or history would not add up.
STARTED_FROM_PENDING = "jsonb_build_object('worker', CAST(:worker AS text), 'from', 'pending')"
_CONTINUED = STARTED | {"data": STARTED_FROM_PENDING}

# What a claim sets. Limits of time are judged by the database's clock: hosts' clocks differ.
_CLAIMED = ", worker = :worker, started_at = :now, claimed_at = now(), heartbeat_at = now()"


def release(
    tx: Transaction,
    run_id: UUID,
    ordinals: Sequence[int],
    *,
    continued: Sequence[int] = (),
    worker: str | None = None,
    queue: str | None = None,
) -> list[TaskRun]:
    """Let steps go whose predecessors are final.

    One of `continued` whose queue is this worker's becomes `running` at once; of the others, those that are
    HELD become `ready` and the rest `queued`: they need a message.
    """
    left = _ids(run_id, ordinals)
    released: list[TaskRun] = []
    if continued:
        changes = f"{_CLAIMED}, queued_at = :now"
        mine = f"t.queue = :queue AND NOT {HELD}"
        going_on = _ids(run_id, continued)
        theirs = {"worker": worker, "queue": queue}
        released += _release(tx, run_id, T.RUNNING, going_on, mine, changes, theirs, _CONTINUED)
    # Whatever the first of these leaves is held, even if it has ceased to be so since.
    for to, which in ((T.QUEUED, f"NOT {HELD}"), (T.READY, "true")):
        done = {each.id for each in released}
        left = [each for each in left if each not in done]
        moved = _release(tx, run_id, to, left, which, ", queued_at = :now", {}, {})
        append(tx, together(f"task_runs.{to.value}", moved))
        released += moved
    return released


# Waits for its predecessors, and not for the due time of another attempt.
UNDECIDED = "t.status = 'pending' AND t.due_at IS NULL"


def _release(
    tx: Transaction,
    run_id: UUID,
    to: TaskStatus,
    which: Sequence[UUID],
    where: str,
    changes: str,
    parameters: dict[str, Any],
    event: dict[str, str],
) -> list[TaskRun]:
    if not which:
        return []
    where = f"t.id = ANY(CAST(:ids AS uuid[])) AND {UNDECIDED} AND {where}"
    return move(tx, run_id, to, changes, where, {"ids": list(which)} | parameters, **event)


_RELEASE_DUE = move_sql(
    "moved",
    f"CASE WHEN {HELD} THEN 'ready' ELSE 'queued' END",
    [T.READY, T.QUEUED],
    ", queued_at = :now, due_at = NULL, awaits = NULL",
    f"t.id = ANY(CAST(:ids AS uuid[])) AND {status_is(T.PENDING)} AND t.due_at IS NOT NULL",
)


def release_due(tx: Transaction, run_id: UUID, which: Sequence[UUID]) -> list[TaskRun]:
    """Let task runs go that are due, or need not wait any longer: `queued`, or `ready` where they are
    HELD.
    """
    if not which:
        return []
    parameters = {"run_id": run_id, "ids": list(which), "now": tx.now}
    moved = read(tx.execute(f"WITH {_RELEASE_DUE} SELECT * FROM moved", parameters))
    for status in (T.READY, T.QUEUED):
        append(tx, together(f"task_runs.{status.value}", [each for each in moved if each.status is status]))
    return moved


# Of whatever runs: one statement for all of them.
_OF_ANY_RUN = "FROM unnest(CAST(:runs AS uuid[]), CAST(:ids AS uuid[])) AS g(run_id, id)"


def _moved_of_any_run(to: TaskStatus, changes: str, where: str) -> str:
    moving = move_sql(
        "moved",
        f"'{to.value}'",
        [to],
        changes,
        f"""t.run_id = ANY(CAST(:runs AS uuid[])) AND t.id = ANY(CAST(:ids AS uuid[])) AND t.id = g.id
        AND {where}""",
        source=_OF_ANY_RUN,
        run="t.run_id = g.run_id",
    )
    return f"WITH {moving} SELECT * FROM moved"


_DISPATCH = _moved_of_any_run(T.QUEUED, ", queued_at = :now", f"{status_is(T.READY)} AND NOT {IS_PAUSED}")
_HOLD_BACK = _moved_of_any_run(T.READY, "", f"{status_is(T.QUEUED)} AND {IS_PAUSED}")


def dispatch_ready(tx: Transaction, which: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Let ready task runs (run id, id) go, best priority first: their limits have room. Called with the
    limits' row locked.
    """
    return _move_any(tx, _DISPATCH, which, "task_runs.queued", **{"from": "ready"})


def hold_back(tx: Transaction, which: Sequence[tuple[UUID, UUID]]) -> list[TaskRun]:
    """Take queued task runs (run id, id) back that someone paused: their messages will find nothing."""
    return _move_any(tx, _HOLD_BACK, which, "task_runs.ready")


def _move_any(
    tx: Transaction, statement: str, which: Sequence[tuple[UUID, UUID]], type_: str, **data: Any
) -> list[TaskRun]:
    if not which:
        return []
    parameters = {"runs": [run for run, _ in which], "ids": [each for _, each in which], "now": tx.now}
    moved = read(tx.execute(statement, parameters))
    by_run: dict[UUID, list[TaskRun]] = {}
    for each in moved:
        by_run.setdefault(each.run_id, []).append(each)
    append(tx, [event for mine in by_run.values() for event in together(type_, mine, **data)])
    return sorted(moved, key=lambda each: (each.priority, each.id))


# A pending row is not startable here: only the transaction that saw its predecessors final may start it.
_START = move_sql(
    "moved",
    f"'{T.RUNNING.value}'",
    [T.RUNNING],
    _CLAIMED,
    f"""t.id = ANY(CAST(:ids AS uuid[])) AND t.attempt = :attempt AND {status_is(T.QUEUED)}
        AND NOT {IS_PAUSED}""",
    event=STARTED["event"],
    data=STARTED["data"],
)
_START_ALONE = f"WITH {_START} SELECT * FROM moved"
# The header of the run comes along for a process that meets it for the first time.
_START_WITH_HEADER = f"""
WITH {_START} SELECT {run_headers.COLUMNS}, m.* FROM runs AS r LEFT JOIN moved AS m ON true
WHERE r.id = :run_id
"""


def start(
    tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int, *, worker: str
) -> list[TaskRun]:
    """Claim task runs for this worker. Those that a doubled message, a cancel or another worker took are
    left out.
    """
    if not ordinals:
        return []
    return read(tx.execute(_START_ALONE, _claim(tx, run_id, ordinals, attempt, worker)))


def start_with_header(
    tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int, *, worker: str
) -> tuple[RunHeader | None, list[TaskRun]]:
    """`start`, and the header of the run, None when there is no such run: one statement."""
    if (known := run_headers.known(run_id)) is not None or not ordinals:
        return known or run_headers.load(tx, run_id), start(tx, run_id, ordinals, attempt, worker=worker)
    rows = tx.execute(_START_WITH_HEADER, _claim(tx, run_id, ordinals, attempt, worker)).all()
    if not rows:
        return None, []
    started = [row[run_headers.WIDTH :] for row in rows]
    return run_headers.of_row(tx, rows[0]), read(each for each in started if each[0] is not None)


def _claim(
    tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int, worker: str
) -> dict[str, Any]:
    which = _ids(run_id, ordinals)
    return {"run_id": run_id, "ids": which, "attempt": attempt, "worker": worker, "now": tx.now}


_GIVE_BACK = move_sql(
    "moved",
    f"CASE WHEN {IS_PAUSED} THEN 'ready' ELSE 'queued' END",
    [T.READY, T.QUEUED],
    """, worker = NULL, started_at = NULL, claimed_at = NULL, heartbeat_at = NULL, suspected_at = NULL,
    queued_at = :now""",
    f"""t.id = ANY(CAST(:ids AS uuid[])) AND t.id = g.id AND t.attempt = g.attempt
            AND {status_is(T.RUNNING)} AND t.worker = coalesce(CAST(:worker AS text), t.worker)""",
    source="FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS integer[])) AS g(id, attempt)",
)


def give_back(tx: Transaction, task_runs: Sequence[TaskRun], *, worker: str | None = None) -> list[TaskRun]:
    """Return claimed task runs whose function was never called: others take them, no attempt is used up.
    Only what `worker` holds: who gives back a second time, not knowing of the first, finds them elsewhere.

    Those that were paused meanwhile become `ready`; of the others, which need a message, the task runs as
    they are now.
    """
    if not task_runs:
        return []
    parameters = {
        "run_id": task_runs[0].run_id,
        "ids": [each.id for each in task_runs],
        "attempts": [each.attempt for each in task_runs],
        "worker": worker,
        "now": tx.now,
    }
    returned = read(tx.execute(f"WITH {_GIVE_BACK} SELECT * FROM moved", parameters))
    by_status = {each: [t for t in returned if t.status is each] for each in (T.READY, T.QUEUED)}
    for status, moved in by_status.items():
        append(tx, together(f"task_runs.{status.value}", moved, **{"from": "running"}))
    return by_status[T.QUEUED]


_QUEUED = f"""
SELECT {COLUMNS} FROM task_runs AS t WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[]))
AND t.attempt = :attempt AND {status_is(T.QUEUED)}
"""


def queued(tx: Transaction, run_id: UUID, ordinals: Sequence[int], attempt: int) -> list[TaskRun]:
    """Those of these task runs that still wait in a message."""
    if not ordinals:
        return []
    return read(tx.execute(_QUEUED, {"run_id": run_id, "ids": _ids(run_id, ordinals), "attempt": attempt}))


# --- the good end of an attempt (the bad one: attempts.py) --------------------------------------------------

# What a completion sets, from a row `o` of :rows.
_OUTPUT = """, finished_at = :now, output = o.output, output_path = o.path, output_size = o.size,
    output_hash = o.hash, selected_next = CASE WHEN o.next IS NOT NULL THEN
        ARRAY(SELECT jsonb_array_elements_text(o.next)) END"""
_COMPLETED = "jsonb_build_object('outputHash', m.output_hash, 'selectedNext', to_jsonb(m.selected_next))"


def _complete(columns: str = "", changes: str = "", data: str = "", returning: str = "") -> str:
    return move_sql(
        "moved",
        f"'{T.COMPLETED.value}'",
        [T.COMPLETED],
        f"{_OUTPUT}{changes}",
        f"""t.id = ANY(CAST(:ids AS uuid[])) AND t.id = o.id AND t.attempt = o.attempt
        AND {status_is(T.RUNNING)}""",
        source=f"""FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS o(id uuid, attempt integer, output jsonb,
            path text, size integer, hash text, next jsonb{columns})""",
        event="'task_run.completed'",
        data=f"jsonb_strip_nulls({_COMPLETED}){data}",
        returning=returning,
    )


COMPLETE = _complete()
_COMPLETE_ALONE = f"WITH {COMPLETE} SELECT * FROM moved"
# With the result of another task run. Only here are the columns of keys touched.
_CACHED = _complete(
    ", key text, origin uuid, shown text",
    ", idempotency_key = o.key, cached_from = o.origin",
    " || jsonb_build_object('cached', true, 'cachedFrom', m.shown)",
    ", o.shown",
)
_COMPLETE_CACHED = f"WITH {_CACHED} SELECT * FROM moved"


def complete(tx: Transaction, completions: Sequence[Completion]) -> list[TaskRun]:
    """Store results and end the attempts well."""
    cached = [each for each in completions if each.cached_from is not None]
    own = [each for each in completions if each.cached_from is None] if cached else completions
    done = read(tx.execute(_COMPLETE_ALONE, completed(tx, own))) if own else []
    return done + (read(tx.execute(_COMPLETE_CACHED, completed(tx, cached))) if cached else [])


def completed(tx: Transaction, completions: Sequence[Completion]) -> dict[str, Any]:
    """The parameters of COMPLETE."""
    rows = ",".join(map(_completion_row, completions))
    which = [each.task_run.id for each in completions]
    return {"run_id": completions[0].task_run.run_id, "ids": which, "rows": f"[{rows}]", "now": tx.now}


def _completion_row(each: Completion) -> str:
    # The output is JSON text already: it is put in as it is instead of being read and written once more.
    row = {
        "id": str(each.task_run.id),
        "attempt": each.task_run.attempt,
        "path": each.output.path,
        "size": each.output.size,
        "hash": each.output.hash,
        "next": each.selected_next,
    }
    if each.cached_from is not None:
        shown = ids.show(ids.TASK_RUN, each.cached_from)
        row |= {"key": each.key, "origin": str(each.cached_from), "shown": shown}
    head = orjson.dumps(row).decode()
    return f'{head[:-1]},"output":{each.output.inline or "null"}}}'


# --- what never runs --------------------------------------------------------------------------------------


# A step skipped because of a failure says so; one that nobody chose has no error code.
PREDECESSOR_FAILED = "PREDECESSOR_FAILED"


def skip(tx: Transaction, run_id: UUID, ordinals: Sequence[int], *, code: str | None = None) -> list[TaskRun]:
    """Mark steps that nobody chose (no code), or that wait for what failed (PREDECESSOR_FAILED)."""
    if not ordinals:
        return []
    skipped = move(
        tx,
        run_id,
        T.SKIPPED,
        ", finished_at = :now, error_code = :code",
        f"t.id = ANY(CAST(:ids AS uuid[])) AND {UNDECIDED}",
        {"ids": _ids(run_id, ordinals), "code": code},
    )
    append(tx, together("task_runs.skipped", skipped, errorCode=code))
    return skipped


def cancel_tasks(
    tx: Transaction, run_id: UUID, task_ids: Sequence[str], *, code: str, message: str
) -> list[TaskRun]:
    """Cancel the task runs of these tasks that have not started. What runs goes on to its end."""
    where = "t.task_id = ANY(CAST(:task_ids AS text[])) AND t.status IN ('pending', 'ready', 'queued')"
    return _cancel(tx, run_id, where, {"task_ids": list(task_ids)}, code, message)


def cancel_all(tx: Transaction, run_id: UUID, *, code: str, message: str) -> list[TaskRun]:
    """Cancel every open task run of a run. Attempts under way are fenced: their outcome will find no row."""
    return _cancel(tx, run_id, "true", {}, code, message)


def _cancel(
    tx: Transaction, run_id: UUID, where: str, which: dict[str, Any], code: str, message: str
) -> list[TaskRun]:
    error = orjson.dumps({"code": code, "message": message}).decode()
    # A row that was being claimed when this transaction began may have started after that moment.
    changes = """, finished_at = greatest(:now, t.started_at), error = CAST(:error AS jsonb),
        error_code = :code"""
    cancelled = move(tx, run_id, T.CANCELLED, changes, where, {"error": error, "code": code} | which)
    append(tx, together("task_runs.cancelled", cancelled, errorCode=code))
    keys_released.note(tx, cancelled)
    return cancelled


# --- maps -------------------------------------------------------------------------------------------------


def lay_out(tx: Transaction, run_id: UUID, ordinal: int, *, first: int, count: int) -> TaskRun | None:
    """A map's items exist now: the map itself waits for them."""
    moved = move(
        tx,
        run_id,
        T.WAITING,
        ", started_at = :now, queued_at = :now, map_first = :first, map_count = :count",
        "t.id = :id AND t.status = 'pending' AND t.kind = 'map'",
        {"id": ids.task_run_id(run_id, ordinal), "first": first, "count": count},
        event="'task_run.mapped'",
        data="jsonb_build_object('first', CAST(:first AS integer), 'count', CAST(:count AS integer))",
    )
    return moved[0] if moved else None


def finish_map(tx: Transaction, run_id: UUID, ordinal: int, *, count: int) -> TaskRun | None:
    """All items of a map are final and none failed (or the failure mode takes what there is).

    The map's output is its items' outputs in order; they stay in the items' rows and are read from there.
    """
    moved = move(
        tx,
        run_id,
        T.COMPLETED,
        ", started_at = coalesce(t.started_at, :now), finished_at = :now, map_count = :count",
        "t.id = :id AND t.kind = 'map'",
        {"id": ids.task_run_id(run_id, ordinal), "count": count},
        event="'task_run.completed'",
        data="jsonb_build_object('count', CAST(:count AS integer))",
    )
    return moved[0] if moved else None
