"""Lets the runs above a child go on when a dead letter of it is retried: each waits for its child again.

The rows are locked from the root down. A run that ended without the child, or went on, is not brought back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import Conflict
from pipeweave.orchestrator.deadletters import reopening
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.orchestrator.state import run_headers, waits
from pipeweave.orchestrator.state.rows import COLUMNS, of_row
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits import child_rounds
from pipeweave.orchestrator.waits.children import CHILD_FAILED


@dataclass(frozen=True, slots=True)
class Above:
    """A run above the child, whose row is locked.

    Args:
        status: as `reopening.lock_run` returned it.
        task_run_id: the task run that waited for the next run below.
        child: that run.
    """

    run: RunHeader
    status: RunStatus
    task_run_id: UUID
    child: UUID


def lock(tx: Transaction, run: RunHeader | None) -> list[Above]:
    """Lock the runs above a run, the root first.

    Raises:
        Conflict: one of them is not running, failed or partial.
    """
    links: list[tuple[RunHeader | None, UUID, UUID, UUID]] = []
    while run is not None and (parent := run.parent) is not None:
        above = run_headers.load(tx, parent.run_id)
        links.append((above, parent.run_id, parent.task_run_id, run.id))
        run = above
    locked: list[Above] = []
    for header, run_id, task_run_id, child in reversed(links):
        status = reopening.lock_run(tx, header, run_id)
        assert header is not None
        locked.append(Above(header, status, task_run_id, child))
    return locked


def reopen(tx: Transaction, above: Sequence[Above], cause: TriggeredBy) -> None:
    """Let these runs wait for their children again, the root first.

    Args:
        above: of `lock`.
        cause: who or what retries the dead letter.

    Raises:
        Conflict: one of them has gone on without its child.
    """
    for each in above:
        if (failed := _failed(tx, each)) is not None:
            data = child_rounds.data_of(tx, each.run, failed, each.child)
            waiting = reopening.wait_again(tx, each.run, each.status, failed, cause)
            waits.wait_again(tx, each.run, waiting, data)


_TASK_RUN = f"""
SELECT {COLUMNS}, t.error_code, t.error -> 'details' ->> 'runId' AS child, w.data ->> 'run' AS awaited,
    t.error -> 'handlerError' ->> 'runId' AS handler
FROM task_runs AS t LEFT JOIN waits AS w ON w.run_id = t.run_id AND w.task_run_id = t.id
WHERE t.run_id = :run_id AND t.id = :id FOR UPDATE OF t
"""


def _failed(tx: Transaction, above: Above) -> TaskRun | None:
    """The task run that failed with its child; None if it waits for the child still."""
    if above.task_run_id == above.run.id:
        shown = ids.show(ids.RUN, above.child)
        raise Conflict(
            f"run {shown} was a part of the end of run {ids.show(ids.RUN, above.run.id)}, which is over",
            hint=f"rerun {shown}, and discard the dead letter",
        )
    row: Any = tx.execute(_TASK_RUN, {"run_id": above.run.id, "id": above.task_run_id}).one()
    if row.awaited == str(above.child):
        return None
    shown = ids.show(ids.RUN, above.child)
    if row.handler == shown:
        raise Conflict(
            f"run {shown} took care of the error of step {row.step_id}, which has failed",
            hint="retry the dead letter of that step, and discard this one",
        )
    if row.status != TaskStatus.FAILED or row.error_code != CHILD_FAILED or row.child != shown:
        raise Conflict(
            f"run {ids.show(ids.RUN, above.run.id)} went on without run {shown}, which cannot continue",
            hint="run the pipeline again, and discard the dead letter",
        )
    return of_row(row)
