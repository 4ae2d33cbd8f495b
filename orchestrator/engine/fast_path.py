"""Completes one step and releases its successors in one statement: the fast path of a turn.

The statement takes the same decision as `Advance.settle` for the usual step: the step completed and has few
successors, each with few predecessors. One round trip locks the joins, stores the result and releases the
successors whose other predecessors completed. If another predecessor ended in another way, the rules must
decide, so a join check leaves the join to `Advance`. Steps that one process ran one after the other and that
meet again (branches.py) are completed together, in the same statement.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.outbox import JoinCheck
from pipeweave.orchestrator.domain.plan import END, JoinKind
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import Completion, TaskRun
from pipeweave.orchestrator.engine import fast_path_sql
from pipeweave.orchestrator.engine.branches import are_released_at_once, meet, taken_here
from pipeweave.orchestrator.engine.release import Claimant, as_released
from pipeweave.orchestrator.queueing import limits, widths
from pipeweave.orchestrator.state import completing, run_transitions
from pipeweave.orchestrator.state.rows import read
from pipeweave.orchestrator.store.database import Transaction


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
    return are_released_at_once(run, done.ordinal, chosen)


def applies_to_all(run: RunHeader, completions: Sequence[Completion], chosen: Collection[int] = ()) -> bool:
    """Whether the fast path can store these completions together: each alone, and the same steps follow."""
    if len(completions) == 1:
        return applies(run, completions[0], chosen)
    return all(applies(run, each, chosen) for each in completions) and meet(run, completions)


def complete_and_go_on(
    tx: Transaction, run: RunHeader, completions: Sequence[Completion], claimant: Claimant
) -> list[TaskRun]:
    """Store results and release the next steps: the fast path of complete + `Advance.settle`.

    Args:
        tx: may be of `Database.statements`, as all is one statement.
        completions: one or more, for which `applies_to_all` holds.

    Returns:
        The released steps that the claimant runs now: one, or several that meet again. None where one of
        several attempts is fenced: then the steps behind them are checked.
    """
    return _turn(tx, run, completions, claimant)[0]


def complete_reported(
    tx: Transaction, run: RunHeader, completion: Completion, queue: str, claimant: Claimant | None = None
) -> tuple[list[TaskRun], bool | None]:
    """As `complete_and_go_on`, for a result that came as a report.

    Args:
        queue: where messages about joins go.
        claimant: the process that dispatches the next step; None: each released step gets a message.

    Returns:
        The released step that the claimant dispatches now, if there is one; and whether the result was
        stored, None when only the row tells.
    """
    return _turn(tx, run, [completion], claimant or Claimant("", queue, room=0, tasks=()))


def _turn(
    tx: Transaction, run: RunHeader, completions: Sequence[Completion], claimant: Claimant
) -> tuple[list[TaskRun], bool | None]:
    successors = run.plan.successors(completions[0].task_run.ordinal)
    if successors == (END,):
        return [], _complete_last(tx, run, completions, claimant)
    released = _complete_and_go_on(tx, run, completions, successors, claimant)
    running: list[TaskRun] = []
    queued, limited = [], []
    for each in released:
        match each.status:
            case TaskStatus.RUNNING:
                running.append(each)
            case TaskStatus.QUEUED:
                queued.append(as_released(each))
            case TaskStatus.READY:
                limited.append(each)
    if queued:
        tx.send(*widths.together(tx, run.tenant, queued))
    if limited:
        # In a transaction of its own: the statement above may be durable by now, and a deadlock here must not
        # repeat it. After a crash in between, the tick fills the limits.
        tx.afterwards(functools.partial(_fill, tenant=run.tenant, tasks=[each.task_id for each in limited]))
    # A step that waits for others is not released either.
    is_stored = True if released else None
    return running, is_stored


def _fill(tx: Transaction, *, tenant: str, tasks: Sequence[str]) -> None:
    limits.fill(tx, tenant, tasks)


# --- the statement ----------------------------------------------------------------------------------------


def _complete_and_go_on(
    tx: Transaction,
    run: RunHeader,
    completions: Sequence[Completion],
    successors: Sequence[int],
    claimant: Claimant,
) -> list[TaskRun]:
    """Store results and release the successors that wait for no other step.

    Returns the released successors (running for this worker, queued or ready); none when the attempt is
    fenced or the successors are no longer pending.
    """
    nexts = {each: ids.task_run_id(run.id, each) for each in successors}
    parameters = {
        "nexts": list(nexts.values()),
        "ordinals": list(successors),
        "here": [nexts[each] for each in taken_here(run, successors, claimant)],
        "tenant": run.tenant,
        "worker": claimant.worker,
        "queues": claimant.served,
    }
    edges = _other_edges(run, completions, successors)
    if not edges and len(completions) == 1:
        return read(
            tx.execute(fast_path_sql.GO_ON, completing.completed_one(tx, completions[0]) | parameters)
        )
    parameters |= _several(tx, run, completions, edges)
    rows = tx.execute(fast_path_sql.GO_ON_TO_JOINS, parameters, lock=fast_path_sql.LOCK_JOINS).all()
    _send_checks(tx, run, rows[0].undecided, claimant)
    if 0 < rows[0].stored < len(completions):
        tx.send(*(JoinCheck(run.id, each, claimant.queue) for each in successors))
    return read(row for row in rows if row.id is not None)


def _complete_last(
    tx: Transaction, run: RunHeader, completions: Sequence[Completion], claimant: Claimant
) -> bool:
    """Store the results of end steps and, if they were the last ones, end the run with them.

    Returns whether a result was stored: not where the attempt is fenced.
    """
    if run.parent is not None:
        # The end of a child is told to its parent, by a statement more.
        tx.hold()
    edges = _other_edges(run, completions, (END,))
    if edges or len(completions) > 1:
        parameters = _several(tx, run, completions, edges)
        row = tx.execute(fast_path_sql.LAST_OF_SEVERAL, parameters, lock=fast_path_sql.LOCK_RUN).first()
        _send_checks(tx, run, row and row.undecided, claimant)
    else:
        row = tx.execute(fast_path_sql.LAST, completing.completed_one(tx, completions[0])).first()
    if row and row.is_reopened:
        # The check looks at all task runs: the run is reopened, or one of these attempts is fenced.
        tx.send(JoinCheck(run.id, END, claimant.queue))
    if row:
        run_transitions.announce_end(tx, run.id, row)
    return row is not None


def _other_edges(
    run: RunHeader, completions: Sequence[Completion], successors: Sequence[int]
) -> list[tuple[int, int]]:
    """The edges (join, predecessor) of the joins, without those of the completed steps."""
    joins = [each for each in successors if run.plan.joins[each] is not JoinKind.SINGLE]
    if not joins:
        return []
    completed = {each.task_run.ordinal for each in completions}
    return [(join, each) for join in joins for each in run.plan.predecessors(join) if each not in completed]


def _several(
    tx: Transaction, run: RunHeader, completions: Sequence[Completion], edges: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """The parameters of several results, or of one before joins with other edges."""
    # The end of the run has no task run; the run's own id, whose ordinal is 0, stands for it.
    return completing.completed(tx, completions) | {
        "count": len(completions),
        "joins": [run.id if join == END else ids.task_run_id(run.id, join) for join, _ in edges],
        "others": [ids.task_run_id(run.id, other) for _, other in edges],
    }


def _send_checks(tx: Transaction, run: RunHeader, undecided: Any, claimant: Claimant) -> None:
    tx.send(*(JoinCheck(run.id, ids.ordinal_of(each), claimant.queue) for each in undecided or ()))
