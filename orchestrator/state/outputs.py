"""Finds where the outputs of steps are, in their rows or at a path in storage, and how steps ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.domain.places import Place, Places, StepOutcome
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import Values
from pipeweave.spec import WITH_ITEMS

_OUTPUTS = f"""
SELECT t.step_id, t.kind, t.output, t.output_path, t.output_hash, t.map_first, t.map_count
FROM {NAMED} JOIN task_runs AS t ON {by_key()} WHERE t.status = 'completed'
"""


def places_of_steps(
    tx: Transaction,
    run: RunHeader,
    step_ids: Collection[str],
    items: Mapping[str, Collection[int] | None] | None = None,
) -> Places:
    """Find the outputs of the completed steps among these, by step id.

    Args:
        items: of the output of a map, only these items are needed (negative ones count from the end); the
            other items are null.
    """
    around = _around(run, step_ids)
    if len(around) == len(step_ids):
        return around
    rows = tx.execute(_OUTPUTS, _named(run, step_ids)).all()
    return {**around, **{row.step_id: _place(tx, run, row, items) for row in rows}}


def _around(run: RunHeader, step_ids: Collection[str]) -> Places:
    """The outputs that the run of a body sees of steps around it."""
    places = {} if run.scope is None else run.scope.places
    return {each: places[each] for each in step_ids if each in places}


def _named(run: RunHeader, step_ids: Collection[str]) -> dict[str, Any]:
    ordinals = run.plan.ordinals
    # Of a body: steps around it have no rows in its run.
    wanted = sorted(ids.task_run_id(run.id, ordinals[each]) for each in step_ids if each in ordinals)
    return {"run_id": run.id, "ids": wanted}


def _place(
    tx: Transaction, run: RunHeader, row: Any, items: Mapping[str, Collection[int] | None] | None
) -> Place | list[Place]:
    # A map has an output of its own where its error was handled.
    if row.kind not in WITH_ITEMS or row.output_hash is not None:
        return row.output, row.output_path
    needed = None if items is None else items.get(row.step_id)
    return _of_items(tx, run, row.map_first, row.map_count, needed)


_OUTCOMES = f"""
SELECT t.step_id, t.status, t.error, t.error_code, t.attempt, t.kind, t.output, t.output_path, t.output_hash,
    t.map_first, t.map_count
FROM {NAMED} JOIN task_runs AS t ON {by_key()}
"""


def places_and_outcomes(
    tx: Transaction,
    run: RunHeader,
    items: Mapping[str, Collection[int] | None],
    outcomes: Collection[str],
) -> tuple[Places, dict[str, StepOutcome]]:
    """Find the outputs of some completed steps and how others stand, with one statement for the rows of all.

    Args:
        items: the steps whose outputs are needed, as for `places_of_steps`.
        outcomes: the ids of the steps whose outcomes are needed.
    """
    rows = tx.execute(_OUTCOMES, _named(run, items.keys() | set(outcomes))).all()
    places = {
        row.step_id: _place(tx, run, row, items)
        for row in rows
        if row.step_id in items and row.status == "completed"
    }
    ends = {row.step_id: StepOutcome(row.status, row.error, row.error_code, row.attempt) for row in rows}
    around = {} if run.scope is None else run.scope.outcomes
    return {**_around(run, items), **places}, {**around, **ends}


def load(values: Values, places: Places) -> dict[str, Any]:
    """Load outputs by step id. Reads storage, so call it outside of transactions."""
    return {
        step_id: [values.load(*each) for each in place] if isinstance(place, list) else values.load(*place)
        for step_id, place in places.items()
    }


_ITEMS = """
SELECT t.output, t.output_path FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY t.id
"""
_SOME_ITEMS = f"""
SELECT t.id, t.output, t.output_path FROM {NAMED} JOIN task_runs AS t ON {by_key()}
"""
_NULL: Place = (None, None)


def _of_items(
    tx: Transaction, run: RunHeader, first: int | None, count: int, needed: Collection[int] | None
) -> list[Place]:
    """The places of a map's output. The output of an item that failed under partial-merge is null."""
    if first is None or count == 0:
        return []
    if needed is None:
        span = {
            "run_id": run.id,
            "first": ids.task_run_id(run.id, first),
            "last": ids.task_run_id(run.id, first + count - 1),
        }
        return [(row.output, row.output_path) for row in tx.execute(_ITEMS, span)]
    wanted = [ids.task_run_id(run.id, first + each % count) for each in needed if -count <= each < count]
    places = [_NULL] * count
    for row in tx.execute(_SOME_ITEMS, {"run_id": run.id, "ids": wanted}):
        places[ids.ordinal_of(row.id) - first] = row.output, row.output_path
    return places


_COMPLETED = f"""
SELECT t.step_id FROM {NAMED} JOIN task_runs AS t ON {by_key()} WHERE t.status = 'completed' ORDER BY t.id
"""


def completed(tx: Transaction, run: RunHeader, step_ids: Collection[str]) -> list[str]:
    """The completed steps among these, in the order of their numbers."""
    wanted = [ids.task_run_id(run.id, run.plan.ordinals[each]) for each in step_ids]
    return list(tx.execute(_COMPLETED, {"run_id": run.id, "ids": wanted}).scalars())
