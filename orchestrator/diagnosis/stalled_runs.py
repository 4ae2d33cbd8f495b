"""Finds active runs in which all predecessors of a join or of the end are final, but which do not go on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import ADVANCING_RUN, sql_in
from pipeweave.orchestrator.recovery.closed_joins import closed_joins
from pipeweave.orchestrator.state import run_headers
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction

# Only this many of the oldest active runs are checked; newer runs once those have ended.
MOST_RUNS = 1_000


@dataclass(frozen=True, slots=True)
class UnreleasedJoin:
    """A join, a map or (with `task_run_id` None) the end of a run that waits for nothing since `since`."""

    run_id: UUID
    task_run_id: UUID | None
    step_id: str | None
    since: datetime


_ACTIVE = f"""
SELECT r.id FROM runs AS r
WHERE r.status IN {sql_in(ADVANCING_RUN)} AND r.created_at < :late ORDER BY r.id LIMIT :most
"""


def unreleased_joins(tx: Transaction, *, late: timedelta) -> Iterator[UnreleasedJoin]:
    """The joins, maps and run ends overdue by more than `late`, in the MOST_RUNS oldest active runs."""
    before = tx.now - late
    for run_id in tx.execute(_ACTIVE, {"late": before, "most": MOST_RUNS}).scalars():
        run = run_headers.load(tx, run_id)
        if run is None:
            continue
        for check in closed_joins(tx, {run.id: run.plan}):
            since = _since(tx, run, check.join)
            if since < before:
                yield _unreleased_join(run, check.join, since)


def _unreleased_join(run: RunHeader, join: int, since: datetime) -> UnreleasedJoin:
    if join == END:
        return UnreleasedJoin(run.id, None, None, since)
    return UnreleasedJoin(run.id, ids.task_run_id(run.id, join), run.plan[join].id, since)


# A join waits for its predecessors, a laid-out map also for its items, the end of a run for its end steps.
_SINCE = """
SELECT coalesce(max(t.finished_at), r.created_at) AS since
FROM runs AS r LEFT JOIN {which}
WHERE r.id = :run_id GROUP BY r.created_at
"""
_SINCE_STEPS = _SINCE.format(which=f"({NAMED} JOIN task_runs AS t ON {by_key()}) ON true")
_SINCE_ITEMS = _SINCE.format(which="task_runs AS t ON t.run_id = r.id AND t.map_parent = :join")


def _since(tx: Transaction, run: RunHeader, join: int) -> datetime:
    before = [ids.task_run_id(run.id, each) for each in run.plan.predecessors(join)]
    since: Any = tx.execute(_SINCE_STEPS, {"run_id": run.id, "ids": before}).scalar_one()
    if join != END and run.plan[join].step.has_items:
        items: Any = tx.execute(_SINCE_ITEMS, {"run_id": run.id, "join": join}).scalar_one()
        since = max(since, items)
    return since  # type: ignore[no-any-return]
