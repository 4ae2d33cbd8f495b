"""Reading what went in and what came out: the run's input, the outputs of steps, of maps in their items'
order.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values

_OUTPUTS = """
SELECT t.step_id, t.kind, t.output, t.output_path, t.map_first, t.map_count FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) AND t.status = 'completed'
"""

_ITEMS = """
SELECT t.output, t.output_path FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY t.id
"""


def run_input(tx: Transaction, run: RunHeader) -> Any:
    """The run's input."""
    return tx.values.load(run.input, run.input_path)


# Where a step's output stands: inline or by its path; of a map, that of each of its items.
Place = tuple[Any, str | None]
Places = dict[str, Place | list[Place]]


def of_steps(tx: Transaction, run: RunHeader, step_ids: Collection[str]) -> dict[str, Any]:
    """The outputs of those of these steps that completed, by step id."""
    return load(tx.values, places_of_steps(tx, run, step_ids))


def places_of_steps(tx: Transaction, run: RunHeader, step_ids: Collection[str]) -> Places:
    """Where the outputs of those of these steps that completed stand, by step id."""
    wanted = [ids.task_run_id(run.id, run.plan.ordinals[each]) for each in step_ids]
    found: Places = {}
    for row in tx.execute(_OUTPUTS, {"run_id": run.id, "ids": wanted}).all():
        if row.kind == "map":
            found[row.step_id] = _of_items(tx, run, row.map_first, row.map_count)
        else:
            found[row.step_id] = row.output, row.output_path
    return found


def load(values: Values, places: Places) -> dict[str, Any]:
    """The outputs that stand there."""
    return {
        step_id: [values.load(*each) for each in place] if isinstance(place, list) else values.load(*place)
        for step_id, place in places.items()
    }


def _of_items(tx: Transaction, run: RunHeader, first: int | None, count: int) -> list[Place]:
    """A map's output. An item that failed under partial-merge leaves null in its place."""
    if first is None or count == 0:
        return []
    span = {
        "run_id": run.id,
        "first": ids.task_run_id(run.id, first),
        "last": ids.task_run_id(run.id, first + count - 1),
    }
    return [(row.output, row.output_path) for row in tx.execute(_ITEMS, span)]


_COMPLETED = """
SELECT t.step_id FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) AND t.status = 'completed' ORDER BY t.id
"""


def completed(tx: Transaction, run: RunHeader, step_ids: Collection[str]) -> list[str]:
    """Those of these steps that completed, in document order."""
    wanted = [ids.task_run_id(run.id, run.plan.ordinals[each]) for each in step_ids]
    return list(tx.execute(_COMPLETED, {"run_id": run.id, "ids": wanted}).scalars())
