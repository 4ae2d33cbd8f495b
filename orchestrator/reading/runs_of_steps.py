"""Reads which child run a step or an item of a map has started last, and in which round of a loop it is.

A step starts one if it runs a pipeline or steps of its own, or if a run takes care of its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import CHILD_TASKS, ENGINE_TASK_PREFIX, WITH_ITEMS, LoopStep


@dataclass(frozen=True, slots=True)
class RunOfStep:
    """What a step runs.

    Args:
        run: the child that was started last; None before the first one.
        round: of a loop, the round that it is in, or ended with, from 1; None for any other step.
    """

    run: UUID | None = None
    round: int | None = None


NO_RUN = RunOfStep()


@dataclass(frozen=True, slots=True)
class TaskRunSeen:
    """What tells whether a task run may have started a run."""

    id: UUID
    task: str
    kind: str
    status: str
    error_code: str | None

    @property
    def may_have_run(self) -> bool:
        """As the function says of it."""
        return may_have_run(self.task, self.kind, self.status, self.error_code)

    @property
    def is_handled(self) -> bool:
        """Whether another run took care of its error, or is doing so."""
        return self.error_code is not None and self.status in _HANDLED


def may_have_run(task: str, kind: str, status: str, error_code: str | None) -> bool:
    """Whether such a task run, or what took care of its error, may have started a run."""
    is_handled = error_code is not None and status in _HANDLED
    return is_handled or (task in CHILD_TASKS and kind not in WITH_ITEMS)


_LOOP = f"{ENGINE_TASK_PREFIX}{LoopStep.word}"
_HANDLED = (TaskStatus.WAITING, TaskStatus.COMPLETED)
_ENDED_WELL = sql_in({RunStatus.COMPLETED, RunStatus.PARTIAL})

# An open loop is in the round that its wait has. One that has ended had a round for each child that ended
# well, and one more if the last one did not.
_LATEST = f"""
SELECT s.id, c.id AS child, CASE WHEN s.is_loop
    THEN coalesce(CAST(w.data ->> 'round' AS integer) + 1, n.number) END AS round
FROM unnest(CAST(:ids AS uuid[]), CAST(:loops AS boolean[])) AS s(id, is_loop)
    LEFT JOIN waits AS w ON w.run_id = :run_id AND w.task_run_id = s.id AND w.kind = 'child'
    LEFT JOIN LATERAL (
        SELECT r.id FROM runs AS r WHERE r.parent_task_run_id = s.id AND r.id > :run_id
        ORDER BY r.id DESC LIMIT 1) AS c ON true
    CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM runs AS r
        WHERE s.is_loop AND w.run_id IS NULL AND r.parent_task_run_id = s.id AND r.id > :run_id
            AND (r.status IN {_ENDED_WELL} OR r.id = c.id)) AS n
"""


def seen_row(row: Any) -> TaskRunSeen:
    """What a row of `task_runs` tells of that."""
    return TaskRunSeen(row.id, row.task_id, row.kind, row.status, row.error_code)


def of_task_runs(tx: Transaction, run_id: UUID, task_runs: Iterable[TaskRunSeen]) -> Mapping[UUID, RunOfStep]:
    """The runs of those task runs of a run that have some; no statement is sent if there can be none.

    Args:
        task_runs: of one run.
    """
    able = [(each.id, each.task == _LOOP) for each in task_runs if each.may_have_run]
    if not able:
        return {}
    parameters = {"run_id": run_id, "ids": [id for id, _ in able], "loops": [is_loop for _, is_loop in able]}
    rows: list[Any] = list(tx.execute(_LATEST, parameters))
    return {row.id: RunOfStep(row.child, row.round or None) for row in rows}
