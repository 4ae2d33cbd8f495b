"""What a trigger has to know, in one look: the latest version of a pipeline, and its tasks as they are."""

from __future__ import annotations

from collections import OrderedDict

from pipeweave.orchestrator import pipelines, registry
from pipeweave.orchestrator.database import Transaction
from pipeweave.orchestrator.pipelines import StoredPipeline
from pipeweave.orchestrator.registry import TaskRow

CACHED_PIPELINES = 256

# The version a process saw last, with its task ids: a guess, checked by every look.
_guesses: OrderedDict[tuple[str, str, str], tuple[int, list[str]]] = OrderedDict()

_LOOK = f"""
SELECT p.latest_version, {registry.TASK_COLUMNS}
FROM pipelines AS p
LEFT JOIN (tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id)
    ON t.tenant_id = p.tenant_id AND t.id = ANY(CAST(:ids AS text[]))
WHERE p.tenant_id = :tenant AND p.id = :id
"""


def look(tx: Transaction, tenant: str, pipeline_id: str) -> tuple[StoredPipeline, dict[str, TaskRow]]:
    """The latest version of a pipeline, and those of its tasks that are registered.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    key = (tx.database, tenant, pipeline_id)
    guess = _guesses.get(key)
    if guess is not None:
        version, task_ids = guess
        rows = tx.execute(_LOOK, {"tenant": tenant, "id": pipeline_id, "ids": task_ids}).all()
        if rows and rows[0].latest_version == version:
            tasks = {row.id: registry.task_row(row[1:]) for row in rows if row.id is not None}
            return pipelines.get(tx, tenant, pipeline_id, version), tasks
    stored = pipelines.get(tx, tenant, pipeline_id)
    task_ids = sorted({step.task for step in stored.spec.steps})
    _guesses[key] = (stored.version, task_ids)
    if len(_guesses) > CACHED_PIPELINES:
        _guesses.popitem(last=False)
    return stored, registry.tasks(tx, tenant, task_ids)
