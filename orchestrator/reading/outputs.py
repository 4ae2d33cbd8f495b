"""Reads the output of a run: the outputs of its end steps by step id, large outputs by reference."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import reference
from pipeweave.orchestrator.reading.stored_values import Loading
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# A map's output is the list of its items' outputs. With more items or bytes it is shown by reference, and so
# it is when the maps before it in the answer have too many.
MAP_ITEMS_SHOWN = 1_000
MAP_BYTES_SHOWN = 1_000_000
ALL_MAPS_BYTES_SHOWN = 10_000_000

_ENDS = f"""
SELECT t.id, t.step_id, t.kind, t.output, t.output_path, t.output_size, t.output_hash, t.map_first,
       t.map_count
FROM {NAMED} JOIN task_runs AS t ON {by_key()} WHERE t.status = 'completed' ORDER BY t.id
"""

_ITEMS_SIZE = """
SELECT coalesce(sum(t.output_size), 0) AS size, count(t.output_path) AS stored FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last
"""

_ITEMS = """
SELECT t.output, t.output_path FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id BETWEEN :first AND :last ORDER BY t.id
"""


def of_run(tx: Transaction, tenant: str, run: Any, loading: Loading) -> Document:
    """{output, outputRefs} of a run: the outputs of its completed end steps; null while none has completed.

    A large output is left out of `output`; `outputRefs` says where it is, or how many items a map has.

    Args:
        run: the run's row.
        loading: when wanted, put a StoredValue in the place of each large output, and leave nothing out.

    Raises:
        LimitExceeded: the outputs are too large to be loaded.
    """
    plan = pipelines.get(tx, tenant, run.pipeline_id, run.pipeline_version).plan
    wanted = [ids.task_run_id(run.id, ordinal) for ordinal in plan.ends]
    rows = tx.execute(_ENDS, {"run_id": run.id, "ids": wanted}).all()
    output: Document = {}
    references: Document = {}
    for row in rows:
        value, where = of_task_run(tx, run.id, row, loading)
        if where is None:
            output[row.step_id] = value
        else:
            references[row.step_id] = where
    return {"output": output if rows else None, "outputRefs": references}


def of_task_run(tx: Transaction, run_id: UUID, row: Any, loading: Loading) -> tuple[Any, Document | None]:
    """The output of a completed task run, and a reference when the output is too large to show."""
    if row.kind == "map":
        return _of_map(tx, run_id, row, loading)
    output = loading.value_of(row.output, row.output_path, row.output_size)
    if loading.is_wanted:
        return output, None
    return output, reference(row.output_path, row.output_size, row.output_hash)


def _of_map(tx: Transaction, run_id: UUID, row: Any, loading: Loading) -> tuple[Any, Document | None]:
    if not row.map_count or row.map_first is None:
        return [], None
    first, last = row.map_first, row.map_first + row.map_count - 1
    span = {"run_id": run_id, "first": ids.task_run_id(run_id, first), "last": ids.task_run_id(run_id, last)}
    total = tx.execute(_ITEMS_SIZE, span).one()
    is_large = total.stored or total.size > MAP_BYTES_SHOWN or row.map_count > MAP_ITEMS_SHOWN
    is_large = is_large or loading.bytes + total.size > ALL_MAPS_BYTES_SHOWN
    if is_large and not loading.is_wanted:
        return None, {"items": row.map_count, "size": int(total.size)}
    # Before the items are read: small ones are in their rows, and may be many.
    loading.add(int(total.size))
    items = tx.execute(_ITEMS, span).all()
    return [loading.value_of(each.output, each.output_path, None) for each in items], None
