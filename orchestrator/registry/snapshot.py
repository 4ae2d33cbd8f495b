"""What a trigger has to know: the latest version of a pipeline, and its tasks as they are.

It hardly ever changes, so a process goes by what it saw last, and the statement that writes the run finds out
whether that still holds (AS_EXPECTED): then a look was spared, and nothing slips in between a look and the
write. What was seen is told by its marks: of each row, the transaction that wrote it and where it lies. No
change of a row leaves both as they were, whoever makes it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.registry import pipelines, task_rows
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.store.database import Transaction

REMEMBERED_PIPELINES = 256


@dataclass(frozen=True, slots=True)
class Seen:
    """A pipeline's latest version and those of its tasks that are registered, as they were when looked at."""

    pipeline: StoredPipeline
    tasks: Mapping[str, TaskRow]
    task_ids: Sequence[str]
    marks: Sequence[str]

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of AS_EXPECTED, next to `:tenant`."""
        return {"catalog": self.pipeline.id, "catalog_tasks": self.task_ids, "marks": self.marks}


ANY: dict[str, Any] = {"catalog": None, "catalog_tasks": [], "marks": None}
"""Parameters of AS_EXPECTED for whoever expects nothing."""


class CatalogChanged(PipeWeaveError):
    """What a trigger went by is not so any more: it looks again."""


# The row of a task with a rate limit is rewritten whenever the task starts, so it is known by its content,
# without the columns that starts and ends change. A hash costs more than (xmin, ctid), a look costs more yet.
_TASK_MARK = """CASE WHEN t.rate_limit IS NULL THEN concat_ws(' ', t.xmin, t.ctid)
    ELSE md5(CAST(to_jsonb(t) - CAST('{rate_at,usual_seconds}' AS text[]) AS text)) END"""

_MARKS = f"""
ARRAY(SELECT concat_ws(' ', p.xmin, p.ctid) FROM pipelines AS p
    WHERE p.tenant_id = :tenant AND p.id = :catalog)
|| ARRAY(SELECT concat_ws(' ', {_TASK_MARK}, (SELECT concat_ws(' ', s.xmin, s.ctid)
        FROM services AS s WHERE s.tenant_id = t.tenant_id AND s.id = t.service_id))
    FROM tasks AS t
    WHERE t.tenant_id = :tenant AND t.id = ANY(CAST(:catalog_tasks AS text[])) ORDER BY t.id)
"""

# SQL: whether all is as the writer expects.
AS_EXPECTED = f"(CAST(:marks AS text[]) IS NULL OR {_MARKS} = CAST(:marks AS text[]))"

_LOOK = f"""
SELECT {_MARKS} AS marks, p.latest_version, {task_rows.TASK_COLUMNS}
FROM pipelines AS p
LEFT JOIN (tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id)
    ON t.tenant_id = p.tenant_id AND t.id = ANY(CAST(:catalog_tasks AS text[]))
WHERE p.tenant_id = :tenant AND p.id = :catalog
"""

_seen: OrderedDict[tuple[str, str, str], Seen] = OrderedDict()


def remembered(tx: Transaction, tenant: str, pipeline_id: str) -> Seen | None:
    """The last snapshot that this process took; None if it never looked."""
    return _seen.get((tx.database, tenant, pipeline_id))


def look(tx: Transaction, tenant: str, pipeline_id: str) -> Seen:
    """The latest version of a pipeline, and those of its tasks that are registered, as they are now.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    guess = _seen.get((tx.database, tenant, pipeline_id))
    # Which tasks to look at depends on the version: nearly always it is the one that was seen last.
    pipeline = guess.pipeline if guess is not None else pipelines.get(tx, tenant, pipeline_id)
    while True:
        task_ids = sorted({step.task for step in pipeline.spec.steps})
        parameters = {"tenant": tenant, "catalog": pipeline_id, "catalog_tasks": task_ids}
        rows = tx.execute(_LOOK, parameters).all()
        version = rows[0].latest_version if rows else None
        latest = pipelines.get(tx, tenant, pipeline_id, version)
        if latest.version == pipeline.version and rows:
            tasks = {row.id: task_rows.task_row(row[2:]) for row in rows if row.id is not None}
            return _remember(tx, tenant, Seen(latest, tasks, task_ids, rows[0].marks))
        pipeline = latest


def _remember(tx: Transaction, tenant: str, seen: Seen) -> Seen:
    _seen[tx.database, tenant, seen.pipeline.id] = seen
    if len(_seen) > REMEMBERED_PIPELINES:
        _seen.popitem(last=False)
    return seen
