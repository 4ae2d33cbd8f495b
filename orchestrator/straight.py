"""The straight way: a step ends well, and its only successor, or the end of its run, waits for nothing else.

Most steps of most pipelines are of this kind. What `advance.py` does in a transaction of several statements
is one statement here, which commits by itself; what it decides is the same.
"""

from __future__ import annotations

from pipeweave import ids
from pipeweave.orchestrator import limits, maintenance, run_moves, task_runs
from pipeweave.orchestrator.advance import Going, as_released
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.moving import move_sql
from pipeweave.orchestrator.plan import END, JoinKind
from pipeweave.orchestrator.run_header import RunHeader
from pipeweave.orchestrator.states import TaskStatus
from pipeweave.orchestrator.task_run import Completion, TaskRun, read
from pipeweave.rules import FAIL_FAST


def is_straight(run: RunHeader, completion: Completion) -> bool:
    """Whether nothing but this completion decides what comes next."""
    done = completion.task_run
    if done.kind != "task" or done.is_limited or completion.selected_next is not None:
        return False
    successors = run.plan.successors(done.ordinal)
    if len(successors) > 1 or run.plan.joins[successors[0]] is not JoinKind.SINGLE:
        return False
    if successors[0] == END:
        # In the other modes the end of a run has to look at all of its task runs.
        return run.failure_mode == FAIL_FAST
    return run.plan[successors[0]].step.map is None and not run.plan.gathered(successors[0])


def go_on(tx: Transaction, run: RunHeader, completion: Completion, going: Going) -> list[TaskRun]:
    """Store the result and take the next step. Returns the task run that goes on here, if one does.

    Args:
        tx: need not be one transaction: every statement is whole (`Database.statements`).
        completion: one for which `is_straight` holds.
    """
    successor = run.plan.successors(completion.task_run.ordinal)[0]
    if successor == END:
        _complete_last(tx, completion)
        return []
    released = _complete_and_go_on(
        tx, completion, successor=successor, worker=going.worker, queue=going.queue
    )
    if released is None:
        return []
    if released.status is TaskStatus.RUNNING:
        return [released]
    if released.status is TaskStatus.READY:
        # A crash in between leaves a ready row; the tick fills its limit.
        tx.hold()
        limits.fill(tx, run.tenant, [released.task_id])
    else:
        tx.send(as_released(released))
    return []


# The successor may be another worker's, or its task limited: then it waits for a message, or for its limit.
_MINE = "t.queue = :queue AND NOT t.is_limited"
_GO_ON = move_sql(
    "released",
    f"CASE WHEN {_MINE} THEN 'running' WHEN t.is_limited THEN 'ready' ELSE 'queued' END",
    [TaskStatus.RUNNING, TaskStatus.READY, TaskStatus.QUEUED],
    f""", queued_at = :now, worker = CASE WHEN {_MINE} THEN CAST(:worker AS text) END,
    started_at = CASE WHEN {_MINE} THEN CAST(:now AS timestamptz) END,
    claimed_at = CASE WHEN {_MINE} THEN now() END, heartbeat_at = CASE WHEN {_MINE} THEN now() END""",
    f"t.id = :next AND {task_runs.UNDECIDED} AND EXISTS (SELECT 1 FROM moved)",
    event="CASE WHEN m.status = 'running' THEN 'task_run.started' ELSE 'task_runs.' || m.status END",
    data=f"""CASE WHEN m.status = 'running' THEN {task_runs.STARTED_FROM_PENDING}
        ELSE jsonb_build_object('ordinals', CAST(:ordinals AS jsonb)) END""",
)


def _complete_and_go_on(
    tx: Transaction, completion: Completion, *, successor: int, worker: str, queue: str
) -> TaskRun | None:
    """Store a result and release its only successor, which waits for nothing else: one statement.

    Returns the successor as it is now (running for this worker, queued or ready); None when the attempt was
    no longer this worker's, or the successor not pending any more.
    """
    parameters = {
        "next": ids.task_run_id(completion.task_run.run_id, successor),
        "ordinals": f"[[{successor},{successor}]]",
        "worker": worker,
        "queue": queue,
    }
    statement = f"WITH {task_runs.COMPLETE}, {_GO_ON} SELECT * FROM released"
    rows = read(tx.execute(statement, task_runs.completed(tx, [completion]) | parameters))
    return rows[0] if rows else None


def _complete_last(tx: Transaction, completion: Completion) -> None:
    """Store the result of a run's only end step and end the run with it: one statement."""
    statement = f"WITH {task_runs.COMPLETE}, {run_moves.COMPLETED_WITH_ITS_END} {run_moves.MOVED}"
    if tx.execute(statement, task_runs.completed(tx, [completion])).one().is_awaited:
        maintenance.run_ended(tx)
