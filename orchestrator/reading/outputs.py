"""Reads the output of a run: the outputs of its end steps by step id, large outputs by reference."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import reference
from pipeweave.orchestrator.reading.stored_values import value_of
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# A map's output is the list of its items' outputs. With more items or bytes it is shown by reference.
MAP_ITEMS_SHOWN = 1_000
MAP_BYTES_SHOWN = 1_000_000

_ENDS = """
SELECT t.id, t.step_id, t.kind, t.output, t.output_path, t.output_size, t.output_hash, t.map_first,
       t.map_count
FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) AND t.status = 'completed' ORDER BY t.id
"""

_ITEMS_SIZE = """
SELECT coalesce(sum(t.output_size), 0) AS size, count(t.output_path) AS stored FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last
"""

_ITEMS = """
SELECT t.output, t.output_path FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY t.id
"""


def of_run(tx: Transaction, tenant: str, run: Any, *, load: bool) -> Document:
    """{output, outputRefs} of a run: the outputs of its completed end steps; null while none has completed.

    A large output is left out of `output`; `outputRefs` says where it is, or how many items a map has.

    Args:
        run: the run's row.
        load: put a StoredValue in the place of each large output, and leave nothing out.
    """
    plan = pipelines.get(tx, tenant, run.pipeline_id, run.pipeline_version).plan
    wanted = [ids.task_run_id(run.id, ordinal) for ordinal in plan.ends]
    rows = tx.execute(_ENDS, {"run_id": run.id, "ids": wanted}).all()
    output: Document = {}
    references: Document = {}
    for row in rows:
        value, where = of_task_run(tx, run.id, row, load=load)
        if where is None:
            output[row.step_id] = value
        else:
            references[row.step_id] = where
    return {"output": output if rows else None, "outputRefs": references}


def of_task_run(tx: Transaction, run_id: UUID, row: Any, *, load: bool) -> tuple[Any, Document | None]:
    """The output of a completed task run, and a reference when the output is too large to show."""
    if row.kind == "map":
        return _of_map(tx, run_id, row, load=load)
    if load:
        return value_of(row.output, row.output_path, load=True), None
    return row.output, reference(row.output_path, row.output_size, row.output_hash)


def _of_map(tx: Transaction, run_id: UUID, row: Any, *, load: bool) -> tuple[Any, Document | None]:
    if not row.map_count or row.map_first is None:
        return [], None
    first, last = row.map_first, row.map_first + row.map_count - 1
    span = {"run_id": run_id, "first": ids.task_run_id(run_id, first), "last": ids.task_run_id(run_id, last)}
    if not load:
        total = tx.execute(_ITEMS_SIZE, span).one()
        if total.stored or total.size > MAP_BYTES_SHOWN or row.map_count > MAP_ITEMS_SHOWN:
            return None, {"items": row.map_count, "size": int(total.size)}
    items = tx.execute(_ITEMS, span).all()
    return [value_of(each.output, each.output_path, load=load) for each in items], None
