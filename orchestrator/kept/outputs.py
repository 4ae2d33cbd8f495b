"""Reads the output of a run: what its pipeline returns, with large values by reference."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.json_shapes import reference
from pipeweave.orchestrator.kept.stored_values import Loading, PendingOutput
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.state.named_rows import NAMED, by_key
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import WITH_ITEMS, WITH_OUTPUT

# A map's output is the list of its items' outputs. With more items or bytes it is shown by reference.
MAP_ITEMS_SHOWN = 1_000
MAP_BYTES_SHOWN = 1_000_000
# A value is shown by reference, too, when those before it in the answer have so many bytes.
ALL_BYTES_SHOWN = 10_000_000

_NAMED_STEPS = f"""
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
    """{output, outputRefs} of a run; only a `completed` or `partial` run has an output (`spec/output.py`).

    What refers to a large output is null; `outputRefs` says by step where it is, or how many items a map has.
    Only the steps that the output names are read.

    Args:
        run: the run's row, with its input.
        loading: when wanted, leave the output pending until its large values are loaded, and leave nothing
            out.

    Raises:
        LimitExceeded: the outputs are too large to be loaded.
    """
    if run.status not in WITH_OUTPUT:
        return {"output": None, "outputRefs": {}}
    stored = pipelines.of_run(tx, run)
    counts, inputs = stored.named_in_output
    wanted = [
        ids.task_run_id(run.id, ordinal) for ordinal in sorted(stored.plan.ordinals[each] for each in counts)
    ]
    rows = tx.execute(_NAMED_STEPS, {"run_id": run.id, "ids": wanted}).all() if wanted else []
    shown = _Shown(loading)
    steps: Document = {}
    references: Document = {}
    for row in rows:
        value, where, size = _sized(tx, run.id, row, loading)
        if where is None and not shown.fits(size, counts[row.step_id]):
            where = {"path": None, "backend": None, "size": size, "hash": row.output_hash}
        if where is None:
            steps[row.step_id] = value
        else:
            references[row.step_id] = where
    has_input = loading.is_wanted or run.input_path is None
    if inputs and has_input:
        has_input = shown.fits(run.input_size or 0, inputs)
    pending = PendingOutput(
        stored.output_template,
        loading.value_of(run.input, run.input_path, 0) if inputs else None,
        steps,
        frozenset(references),
        has_input,
    )
    return {"output": pending if loading.is_wanted else pending.resolved(), "outputRefs": references}


class _Shown:
    """Counts the bytes of an output in which values may be repeated."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading
        self._bytes = 0

    def fits(self, size: int, times: int) -> bool:
        """Count a value; whether it may be shown.

        Raises:
            LimitExceeded: large values are wanted, and these are too many.
        """
        if self._loading.is_wanted:
            self._loading.add(size * (times - 1))
            return True
        fits = self._bytes + size * times <= ALL_BYTES_SHOWN
        self._bytes += size * times if fits else 0
        return fits


def of_task_run(tx: Transaction, run_id: UUID, row: Any, loading: Loading) -> tuple[Any, Document | None]:
    """The output of a completed task run, and a reference when the output is too large to show."""
    value, where, _ = _sized(tx, run_id, row, loading)
    return value, where


def _sized(tx: Transaction, run_id: UUID, row: Any, loading: Loading) -> tuple[Any, Document | None, int]:
    """As `of_task_run`, and the size of the output (bytes)."""
    # A map has an output of its own where its error was handled.
    if row.kind in WITH_ITEMS and row.output_hash is None:
        return _of_map(tx, run_id, row, loading)
    output, size = loading.value_of(row.output, row.output_path, row.output_size), row.output_size or 0
    if loading.is_wanted:
        return output, None, size
    return output, reference(row.output_path, row.output_size, row.output_hash), size


def _of_map(tx: Transaction, run_id: UUID, row: Any, loading: Loading) -> tuple[Any, Document | None, int]:
    if not row.map_count or row.map_first is None:
        return [], None, 0
    first, last = row.map_first, row.map_first + row.map_count - 1
    span = {"run_id": run_id, "first": ids.task_run_id(run_id, first), "last": ids.task_run_id(run_id, last)}
    total = tx.execute(_ITEMS_SIZE, span).one()
    is_large = total.stored or total.size > MAP_BYTES_SHOWN or row.map_count > MAP_ITEMS_SHOWN
    is_large = is_large or loading.bytes + total.size > ALL_BYTES_SHOWN
    if is_large and not loading.is_wanted:
        return None, {"items": row.map_count, "size": int(total.size)}, int(total.size)
    # Before the items are read: small ones are in their rows, and may be many.
    loading.add(int(total.size))
    items = tx.execute(_ITEMS, span).all()
    values = [loading.value_of(each.output, each.output_path, None) for each in items]
    return values, None, int(total.size)
