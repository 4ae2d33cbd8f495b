"""How long the runs of a task usually take: workers note it, the size of chunks goes by it."""

from __future__ import annotations

from collections.abc import Iterable

from pipeweave.orchestrator.store.database import Transaction

_NOTE = "UPDATE tasks SET usual_seconds = :seconds WHERE tenant_id = :tenant AND id = :task"

_FIND = """
SELECT id, usual_seconds FROM tasks
WHERE tenant_id = :tenant AND id = ANY(CAST(:tasks AS text[])) AND usual_seconds IS NOT NULL
"""


def note(tx: Transaction, tenant: str, task_id: str, seconds: float) -> None:
    """Remember how long (s) the runs of a task usually take."""
    tx.execute(_NOTE, {"tenant": tenant, "task": task_id, "seconds": seconds})


def find(tx: Transaction, tenant: str, task_ids: Iterable[str]) -> dict[str, float]:
    """How long (s) the runs of these tasks usually take, as far as it is known."""
    rows = tx.execute(_FIND, {"tenant": tenant, "tasks": sorted(task_ids)})
    return {row.id: row.usual_seconds for row in rows}
