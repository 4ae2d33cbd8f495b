"""Completes one step and releases its successors in one statement: the fast path of a turn.

The statement takes the same decision as `Advance.settle` for the usual step: the step completed and has few
successors, each with few predecessors. One round trip locks the joins, stores the result and releases the
successors whose other predecessors completed. If another predecessor ended in another way, the rules must
decide, so a join check leaves the join to `Advance`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.events import LIMIT, PAUSE
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END, JoinKind
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine.release import Claimant, as_released
from pipeweave.orchestrator.queueing import limits, widths
from pipeweave.orchestrator.state import claiming, completing, pause_sql, releasing, run_transitions
from pipeweave.orchestrator.state.named_rows import by_key
from pipeweave.orchestrator.state.rows import of_row
from pipeweave.orchestrator.state.task_transitions import Move, MoveEvent, OneOf
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import FAIL_FAST

# A step with more successors is a fan-out; `release.py` releases it in bulk.
MOST_SUCCESSORS = 8


def applies(run: RunHeader, completion: Completion, chosen: Collection[int] = ()) -> bool:
    """Whether the fast path can store this completion and decide what follows it.

    Args:
        chosen: successors whose conditions are known to be true: they are like plain steps.
    """
    done = completion.task_run
    if done.kind != "task" or done.is_limited or completion.selected_next is not None:
        return False
    if completion.key is not None:
        return False
    if done.attempt > 1:
        # The run may have been reopened; then the joins of this step may be final already.
        return False
    successors = run.plan.successors(done.ordinal)
    if len(successors) > MOST_SUCCESSORS or any(run.plan.joins[each].is_wide for each in successors):
        return False
    if successors == (END,):
        if run.plan.has_ending:
            return False
        # In the other failure modes the end of a run counts all of its task runs.
        return run.failure_mode == FAIL_FAST
    plain = run.plan.plain
    return all((each in plain or each in chosen) and not run.plan.gathered(each) for each in successors)


def complete_and_go_on(
    tx: Transaction, run: RunHeader, completion: Completion, claimant: Claimant
) -> list[TaskRun]:
    """Store the result and release the next steps: the fast path of complete + `Advance.settle`.

    Args:
        tx: may be of `Database.statements`, as all is one statement.
        completion: one for which `applies` holds.

    Returns:
        The released step that the claimant runs now, if there is one.
    """
    return _turn(tx, run, completion, claimant)[0]


def complete_reported(tx: Transaction, run: RunHeader, completion: Completion, queue: str) -> bool | None:
    """As `complete_and_go_on`, for a result that came as a report: each released step gets a message.

    Args:
        queue: where messages about joins go.

    Returns:
        Whether the result was stored; None when only the row tells.
    """
    nobody = Claimant("", queue, room=0, tasks=())
    return _turn(tx, run, completion, nobody)[1]


def _turn(
    tx: Transaction, run: RunHeader, completion: Completion, claimant: Claimant
) -> tuple[list[TaskRun], bool | None]:
    successors = run.plan.successors(completion.task_run.ordinal)
    if successors == (END,):
        return [], _complete_last(tx, run, completion, claimant)
    released = _complete_and_go_on(tx, run, completion, successors, claimant)
    limited = [each for each in released if each.status is TaskStatus.READY]
    queued = [as_released(each) for each in released if each.status is TaskStatus.QUEUED]
    tx.send(*widths.together(tx, run.tenant, queued))
    if limited:
        # In a transaction of its own: the statement above may be durable by now, and a deadlock here must not
        # repeat it. After a crash in between, the tick fills the limits.
        tx.afterwards(functools.partial(_fill, tenant=run.tenant, tasks=[each.task_id for each in limited]))
    # A step that waits for others is not released either.
    is_stored = True if released else None
    return [each for each in released if each.status is TaskStatus.RUNNING], is_stored


def _fill(tx: Transaction, *, tenant: str, tasks: Sequence[str]) -> None:
    limits.fill(tx, tenant, tasks)


# --- the statement ----------------------------------------------------------------------------------------

# Locks the joins in the order of their ids; the statement after it sees the changes that the lock waited for.
_LOCK_JOINS = f"""
SELECT 1 FROM unnest(CAST(:joins AS uuid[])) AS n(id) JOIN task_runs AS t ON {by_key()}
WHERE {releasing.UNDECIDED} ORDER BY t.id FOR UPDATE OF t
"""
_LOCK_RUN = "SELECT 1 FROM runs AS r WHERE r.id = :run_id AND r.finished_at IS NULL FOR UPDATE"

# The other predecessors of each join. A predecessor blocks the join unless it completed and selected every
# successor: it is still open, or the rules must decide.
_STANDING = f"""standing AS (
    SELECT e.next, bool_or(p.finished_at IS NULL) AS is_open, max(p.finished_at) AS last_at,
        bool_or(p.status <> 'completed' OR p.selected_next IS NOT NULL) AS is_blocked
    FROM unnest(CAST(:joins AS uuid[]), CAST(:others AS uuid[])) AS e(next, other)
        JOIN task_runs AS p ON {by_key("e.other", "p")}
    GROUP BY e.next
)"""
_UNDECIDED = """(SELECT array_agg(b.next) FROM standing AS b
    WHERE b.is_blocked AND NOT b.is_open) AS undecided"""

# MATERIALIZED: PostgreSQL reads the pauses once a statement; the places below only look into the array.
_PAUSED = f"""paused AS MATERIALIZED (SELECT {pause_sql.paused_tasks(":tenant")} AS tasks,
    {pause_sql.is_run_paused(":run_id")} AS is_run)"""
_HELD = pause_sql.held(f"x.is_run OR {pause_sql.is_among('x.tasks', 't.task_id')}")

# The claimant continues the first successor that it can call, unless that has another queue or is held.
_HERE = f"t.id = CAST(:here AS uuid) AND t.queue = ANY(CAST(:queues AS text[])) AND NOT {_HELD}"


# When the completed task run ended. It may be later than :now, where the claim knew a faster clock.
_ENDED = "(SELECT max(d.finished_at) FROM moved AS d)"


def _going_on(where: str, begins: str = _ENDED) -> str:
    released = Move(
        name="released",
        to=OneOf(
            f"CASE WHEN {_HERE} THEN 'running' WHEN {_HELD} THEN 'ready' ELSE 'queued' END",
            (TaskStatus.RUNNING, TaskStatus.READY, TaskStatus.QUEUED),
        ),
        changes=f""", queued_at = CAST({begins} AS timestamptz),
        worker = CASE WHEN {_HERE} THEN CAST(:worker AS text) END,
        started_at = CASE WHEN {_HERE} THEN CAST({begins} AS timestamptz) END,
        claimed_at = CASE WHEN {_HERE} THEN now() END, heartbeat_at = CASE WHEN {_HERE} THEN now() END""",
        rows=by_key(),
        where=f"{releasing.UNDECIDED} AND EXISTS (SELECT 1 FROM moved) AND {where}",
        source="""FROM paused AS x,
            unnest(CAST(:nexts AS uuid[]), CAST(:ordinals AS integer[])) AS n(id, ordinal)""",
        event=MoveEvent(
            "CASE WHEN m.status = 'running' THEN 'task_run.started' ELSE 'task_runs.' || m.status END",
            f"""CASE WHEN m.status = 'running' THEN {claiming.STARTED_FROM_PENDING}
            ELSE jsonb_strip_nulls(jsonb_build_object('ordinals',
                jsonb_build_array(jsonb_build_array(m.ordinal, m.ordinal)), 'cause',
                CASE WHEN m.status = 'ready' THEN CASE WHEN m.is_limited THEN '{LIMIT}' ELSE '{PAUSE}' END
                END)) END""",
            after="moved",
        ),
        returning=", n.ordinal",
    )
    return f"{_PAUSED}, {released.sql}"


_FREE = "NOT EXISTS (SELECT 1 FROM standing AS b WHERE b.next = t.id AND b.is_blocked)"
# This transaction may have begun before the one that it waited for; a join starts after both.
_AFTER_ALL = f"greatest({_ENDED}, (SELECT b.last_at FROM standing AS b WHERE b.next = t.id))"

_GO_ON = f"WITH {completing.COMPLETE}, {_going_on('true')} SELECT * FROM released"
_GO_ON_TO_JOINS = f"""
WITH {completing.COMPLETE}, {_STANDING}, {_going_on(_FREE, _AFTER_ALL)}
SELECT r.*, u.undecided FROM (SELECT {_UNDECIDED}) AS u LEFT JOIN released AS r ON true
"""

_GOES_ON = "NOT EXISTS (SELECT 1 FROM run)"
_LAST = f"""
WITH {completing.COMPLETE}, {run_transitions.completed_with("true", _ENDED)}
SELECT {run_transitions.AWAITED}, {_GOES_ON} AS is_reopened FROM moved
"""
_NONE_BLOCKS = "NOT EXISTS (SELECT 1 FROM standing AS b WHERE b.is_blocked)"
_AFTER_ALL_ENDS = f"greatest({_ENDED}, (SELECT max(b.last_at) FROM standing AS b))"
_LAST_OF_SEVERAL = f"""
WITH {completing.COMPLETE}, {_STANDING}, {run_transitions.completed_with(_NONE_BLOCKS, _AFTER_ALL_ENDS)}
SELECT {_UNDECIDED}, {run_transitions.AWAITED}, {_GOES_ON} AND {_NONE_BLOCKS} AS is_reopened
FROM moved
"""


def _complete_and_go_on(
    tx: Transaction, run: RunHeader, completion: Completion, successors: Sequence[int], claimant: Claimant
) -> list[TaskRun]:
    """Store a result and release the successors that wait for no other step.

    Returns the released successors (running for this worker, queued or ready); none when the attempt is
    fenced or the successors are no longer pending.
    """
    parameters = completing.completed(tx, [completion]) | {
        "nexts": [ids.task_run_id(run.id, each) for each in successors],
        "ordinals": list(successors),
        "here": _continued_here(run, successors, claimant),
        "tenant": run.tenant,
        "worker": claimant.worker,
        "queues": claimant.served,
    }
    edges = _other_edges(run, completion.task_run.ordinal, successors)
    if not edges:
        return sorted(map(of_row, tx.execute(_GO_ON, parameters)), key=lambda each: each.id)
    rows = tx.execute(_GO_ON_TO_JOINS, parameters | _as_parameters(run, edges), lock=_LOCK_JOINS).all()
    _send_checks(tx, run, rows[0].undecided, claimant)
    return sorted((of_row(row) for row in rows if row.id is not None), key=lambda each: each.id)


def _continued_here(run: RunHeader, successors: Sequence[int], claimant: Claimant) -> UUID | None:
    """The successor that the claimant goes on with: the first that it can call."""
    mine = (each for each in successors if claimant.may_take(run.plan[each].step.task))
    first = next(mine, None)
    return None if first is None else ids.task_run_id(run.id, first)


def _complete_last(tx: Transaction, run: RunHeader, completion: Completion, claimant: Claimant) -> bool:
    """Store the result of an end step and, if it was the last one, end the run with it.

    Returns whether the result was stored: not where the attempt is fenced.
    """
    if run.parent is not None:
        # The end of a child is told to its parent, by a statement more.
        tx.hold()
    parameters = completing.completed(tx, [completion])
    edges = _other_edges(run, completion.task_run.ordinal, (END,))
    if edges:
        row = tx.execute(_LAST_OF_SEVERAL, parameters | _as_parameters(run, edges), lock=_LOCK_RUN).first()
        _send_checks(tx, run, row and row.undecided, claimant)
    else:
        row = tx.execute(_LAST, parameters).first()
    if row and row.is_reopened:
        # The check looks at all task runs of a reopened run.
        tx.send(JoinCheck(run.id, END, claimant.queue))
    if row:
        run_transitions.announce_end(tx, run.id, row)
    return row is not None


def _other_edges(run: RunHeader, completed: int, successors: Sequence[int]) -> list[tuple[int, int]]:
    """The edges (join, predecessor) of the joins, without those of the completed step."""
    joins = [each for each in successors if run.plan.joins[each] is not JoinKind.SINGLE]
    return [(join, each) for join in joins for each in run.plan.predecessors(join) if each != completed]


def _as_parameters(run: RunHeader, edges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    # The end of the run has no task run; the run's own id, whose ordinal is 0, stands for it.
    return {
        "joins": [run.id if join == END else ids.task_run_id(run.id, join) for join, _ in edges],
        "others": [ids.task_run_id(run.id, other) for _, other in edges],
    }


def _send_checks(tx: Transaction, run: RunHeader, undecided: Any, claimant: Claimant) -> None:
    tx.send(*(JoinCheck(run.id, ids.ordinal_of(each), claimant.queue) for each in undecided or ()))
