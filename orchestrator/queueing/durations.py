"""Stores the usual durations of tasks: workers measure them, and the publisher sizes chunks by them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeweave.orchestrator.store.database import Transaction

_NOTE = "UPDATE tasks SET usual_seconds = :seconds WHERE tenant_id = :tenant AND id = :task"

_FIND = """
SELECT id, usual_seconds FROM tasks
WHERE tenant_id = :tenant AND id = ANY(CAST(:tasks AS text[])) AND usual_seconds IS NOT NULL
"""


def record(tx: Transaction, tenant: str, task_id: str, seconds: float) -> None:
    """Store the usual duration (s) of the task runs of a task."""
    tx.execute(_NOTE, {"tenant": tenant, "task": task_id, "seconds": seconds})


def find(tx: Transaction, tenant: str, task_ids: Iterable[str]) -> dict[str, float]:
    """The usual durations (s) of these tasks by id; a task whose duration is unknown is left out."""
    rows = tx.execute(_FIND, {"tenant": tenant, "tasks": sorted(task_ids)})
    return {row.id: row.usual_seconds for row in rows}
