"""Takes snapshots of what a trigger needs: the current version of a pipeline, and the rows of its tasks.

These rows rarely change. So a trigger uses the last snapshot of its process, and the statement that writes
the run checks that the snapshot is still current (IS_CURRENT). That saves a round trip, and nothing can
change between the check and the write. A snapshot is identified by the marks of its rows: each row's (xmin,
ctid), or for a task with a rate limit a hash of its row. Any change of a row changes its mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeweave.orchestrator.registry import pipelines, task_rows
from pipeweave.orchestrator.registry.pipelines import StoredPipeline
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """A version of a pipeline and its registered tasks, with the marks of their rows.

    Args:
        kept: what others keep of what follows from it (`runs/prepared_starts.py`), as long as it lives.
    """

    pipeline: StoredPipeline
    tasks: Mapping[str, TaskRow]
    task_ids: Sequence[str]
    marks: Sequence[str]
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def as_parameters(self) -> dict[str, Any]:
        """The parameters of IS_CURRENT, next to `:tenant`."""
        return {"catalog": self.pipeline.id, "catalog_tasks": self.task_ids, "marks": self.marks}


ANY_CATALOG: dict[str, Any] = {"catalog": None, "catalog_tasks": [], "marks": None}
"""Parameters of IS_CURRENT that make it true for any catalog."""


# By tenant and pipeline. A snapshot shares its version with the cache of versions, and adds its tasks' rows.
SNAPSHOTS = CacheSpec[tuple[str, str], CatalogSnapshot]("catalog snapshots", 256)


class SnapshotOutdated(Exception):
    """A signal to the trigger: its snapshot is out of date, and it must take another snapshot."""


# The row of a task with a rate limit is rewritten at each start of the task. So its mark is a hash of the
# row, without the columns that starts and ends change. A hash costs more than (xmin, ctid), but less than a
# new snapshot.
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

# SQL condition: the writer's snapshot is still current, or it has none.
IS_CURRENT = f"(CAST(:marks AS text[]) IS NULL OR {_MARKS} = CAST(:marks AS text[]))"

_TAKE_SNAPSHOT = f"""
SELECT {_MARKS} AS marks, {pipelines.CURRENT} AS current_version, {task_rows.TASK_COLUMNS}
FROM pipelines AS p
LEFT JOIN (tasks AS t JOIN services AS s ON s.tenant_id = t.tenant_id AND s.id = t.service_id)
    ON t.tenant_id = p.tenant_id AND t.id = ANY(CAST(:catalog_tasks AS text[]))
WHERE p.tenant_id = :tenant AND p.id = :catalog
"""


def last_snapshot(tx: Transaction, tenant: str, pipeline_id: str) -> CatalogSnapshot | None:
    """The last snapshot that this process took; None if it took none."""
    return tx.cache(SNAPSHOTS).get((tenant, pipeline_id))


def take_snapshot_at(tx: Transaction, tenant: str, pipeline_id: str, version: int | None) -> CatalogSnapshot:
    """Take a snapshot of a version; None for the current one, as `take_snapshot`.

    Raises:
        NotFound: the tenant has no such pipeline or version.
    """
    if version is None:
        return take_snapshot(tx, tenant, pipeline_id)
    return take_snapshot_of(tx, tenant, pipelines.get(tx, tenant, pipeline_id, version))


def take_snapshot_of(tx: Transaction, tenant: str, pipeline: StoredPipeline) -> CatalogSnapshot:
    """Take a snapshot for a version that need not be the current one; it is not cached."""
    task_ids = sorted(pipeline.spec.tasks)
    parameters = {"tenant": tenant, "catalog": pipeline.id, "catalog_tasks": task_ids}
    rows = tx.execute(_TAKE_SNAPSHOT, parameters).all()
    tasks = {row.id: task_rows.task_row(row[2:]) for row in rows if row.id is not None}
    return CatalogSnapshot(pipeline, tasks, task_ids, rows[0].marks if rows else [])


def take_snapshot(tx: Transaction, tenant: str, pipeline_id: str) -> CatalogSnapshot:
    """Take a snapshot of a pipeline's current version and its registered tasks; cache it after the commit.

    Raises:
        NotFound: the tenant has no such pipeline.
    """
    guess = tx.cache(SNAPSHOTS).get((tenant, pipeline_id))
    # The tasks to read depend on the version, which is nearly always that of the last snapshot.
    pipeline = guess.pipeline if guess is not None else pipelines.get(tx, tenant, pipeline_id)
    while True:
        task_ids = sorted(pipeline.spec.tasks)
        parameters = {"tenant": tenant, "catalog": pipeline_id, "catalog_tasks": task_ids}
        rows = tx.execute(_TAKE_SNAPSHOT, parameters).all()
        version = rows[0].current_version if rows else None
        current = pipelines.get(tx, tenant, pipeline_id, version)
        if current.version == pipeline.version and rows:
            tasks = {row.id: task_rows.task_row(row[2:]) for row in rows if row.id is not None}
            if guess is not None and guess.pipeline is current and guess.marks == rows[0].marks:
                return guess
            taken = CatalogSnapshot(current, tasks, task_ids, rows[0].marks)
            tx.cache_after_commit(SNAPSHOTS, (tenant, pipeline_id), taken)
            return taken
        pipeline = current
