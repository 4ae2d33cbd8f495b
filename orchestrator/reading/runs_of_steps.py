"""Reads which child run a step or an item of a map has started last, and in which round of a loop it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.states import RunStatus, sql_in
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
_LOOP = f"{ENGINE_TASK_PREFIX}{LoopStep.word}"
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


def of_task_runs(
    tx: Transaction, run_id: UUID, task_runs: Iterable[tuple[UUID, str, str]]
) -> Mapping[UUID, RunOfStep]:
    """The runs of those task runs of a run that have some; no statement is sent if there can be none.

    Args:
        task_runs: of one run: ids, tasks and kinds.
    """
    able = [
        (id, task == _LOOP) for id, task, kind in task_runs if task in CHILD_TASKS and kind not in WITH_ITEMS
    ]
    if not able:
        return {}
    parameters = {"run_id": run_id, "ids": [id for id, _ in able], "loops": [is_loop for _, is_loop in able]}
    rows: list[Any] = list(tx.execute(_LATEST, parameters))
    return {row.id: RunOfStep(row.child, row.round or None) for row in rows}
