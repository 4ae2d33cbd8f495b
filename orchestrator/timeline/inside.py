"""Measures a run and the child runs that its critical path waited for, and those inside of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.timeline import reading
from pipeweave.orchestrator.timeline.critical_path import PathStep, critical_path
from pipeweave.orchestrator.timeline.ledger import parts
from pipeweave.orchestrator.timeline.reading import RunRow
from pipeweave.orchestrator.timeline.spans import PathPart, RunTimes

# Child runs that one ledger looks into, of all depths together.
MOST_RUNS = 20

# Those of each task run that took the longest. Their month may be a later one, and none before.
_CHILDREN = """
SELECT c.id, c.parent_task_run_id FROM unnest(CAST(:ids AS uuid[])) AS s(id) CROSS JOIN LATERAL (
    SELECT r.id, r.parent_task_run_id, coalesce(r.finished_at, now()) - r.created_at AS took FROM runs AS r
    WHERE r.parent_task_run_id = s.id AND r.id > :run_id ORDER BY took DESC LIMIT :most) AS c
ORDER BY c.took DESC, c.id LIMIT :most
"""


@dataclass(slots=True)
class _Budget:
    """How many child runs may still be looked into."""

    left: int


def measure(tx: Transaction, run: RunRow) -> tuple[RunTimes, list[PathStep]]:
    """The times of a run that its ledger needs, and its critical path."""
    times = reading.step_times(tx, run)
    path = critical_path(times)
    times = reading.with_last_items(tx, run, times, [each.ordinal for each in path])
    return reading.with_events(tx, run, times), path


def whole(tx: Transaction, tenant: str, run: RunRow) -> tuple[RunTimes, list[PathStep], list[PathPart]]:
    """The times of a run, its critical path, and what its time was spent on, also in its child runs."""
    return _whole(tx, tenant, run, _Budget(MOST_RUNS))


def _whole(
    tx: Transaction, tenant: str, run: RunRow, budget: _Budget
) -> tuple[RunTimes, list[PathStep], list[PathPart]]:
    times, path = measure(tx, run)
    times = replace(times, inside=_inside(tx, tenant, run, _waiting(times, path), budget))
    return times, path, parts(times, path)


def _waiting(times: RunTimes, path: Iterable[PathStep]) -> list[int]:
    """The ordinals of the steps and items of the path that waited for child runs, and END for an ending."""
    on_path = (times.last_items.get(each.ordinal, times.steps[each.ordinal]) for each in path)
    waiting = [each.ordinal for each in on_path if each.has_runs_inside]
    return [*waiting, END] if times.has_ending else waiting


def _inside(
    tx: Transaction, tenant: str, run: RunRow, waiting: Sequence[int], budget: _Budget
) -> Mapping[int, Sequence[PathPart]]:
    """What the child runs did that these task runs waited for, in the time of the run."""
    inside: dict[int, list[PathPart]] = defaultdict(list)
    for child, ordinal in _children(tx, run.id, waiting, budget):
        row = reading.further_row(tx, tenant, child)
        later = run.since(row.created_at) or 0
        inside[ordinal] += [_shifted(each, later) for each in _whole(tx, tenant, row, budget)[2]]
    return {ordinal: sorted(each, key=lambda part: part.span.begin) for ordinal, each in inside.items()}


def _children(
    tx: Transaction, run_id: UUID, waiting: Sequence[int], budget: _Budget
) -> list[tuple[UUID, int]]:
    if not waiting or not budget.left:
        return []
    # The run itself waits for what its ending runs.
    waits = [run_id if each == END else ids.task_run_id(run_id, each) for each in waiting]
    parameters = {"run_id": run_id, "ids": waits}
    rows: list[Any] = list(tx.execute(_CHILDREN, {**parameters, "most": budget.left}))
    budget.left -= len(rows)
    return [(row.id, ids.ordinal_of(row.parent_task_run_id)) for row in rows]


def _shifted(part: PathPart, later: int) -> PathPart:
    span = part.span
    return part._replace(span=span._replace(begin=span.begin + later, end=span.end + later))
