"""Finds the stored logs of a run that may grow, and their sizes. They leave no event when they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from pipeweave.orchestrator.domain import json_shapes
from pipeweave.orchestrator.kept import stored_logs
from pipeweave.orchestrator.kept.stored_logs import LogPlace
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.stream.changes import LOG
from pipeweave.storage import Backends

# Logs of one run that are looked at.
MOST = 50

Key = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The log of an attempt. `pipeline_id` None: of a standalone task."""

    place: LogPlace
    run_id: UUID
    pipeline_id: str | None
    step_id: str

    @property
    def key(self) -> Key:
        """Its task run and attempt."""
        return self.place.task_run_id, self.place.attempt

    @property
    def backend(self) -> str:
        """The storage that it is in."""
        return self.place.references[0].backend


_LIVE = """
SELECT t.id, t.attempt, t.step_id, t.logs_path, r.pipeline_id
FROM task_runs AS t JOIN runs AS r ON r.id = t.run_id
WHERE t.run_id = :run_id AND t.tenant_id = :tenant
  AND (t.status = 'running' OR t.started_at IS NOT NULL AND t.finished_at >= :since)
ORDER BY t.started_at DESC LIMIT :limit
"""


def live(
    tx: Transaction, tenant: str, run_id: UUID, since: datetime, backends: Backends, secret_key: str | None
) -> Sequence[StoredLog]:
    """The logs of the task runs that run, or have ended since; of many, those that started last."""
    parameters = {"run_id": run_id, "tenant": tenant, "since": since, "limit": MOST}
    logs = []
    for row in tx.execute(_LIVE, parameters):
        owner = tenant, row.pipeline_id
        places = stored_logs.references_of(row.logs_path, row.id, row.attempt, owner, backends, secret_key)
        place = LogPlace(row.id, row.attempt, places, is_over=False)
        logs.append(StoredLog(place, run_id, row.pipeline_id, row.step_id))
    return logs


def size_of(backends: Backends, log: StoredLog) -> int:
    """How many bytes of it are stored. Call it without a connection.

    Raises:
        Unavailable: storage cannot be reached.
    """
    return stored_logs.size_of(backends, log.place)


def content(log: StoredLog, at: datetime, size: int) -> bytes:
    """The change that says so, as JSON.

    Args:
        at: when its size was asked for.
    """
    return orjson.dumps(
        {
            "type": LOG,
            "at": json_shapes.iso(at),
            "seq": None,
            "runId": json_shapes.run_id(log.run_id),
            "pipelineId": log.pipeline_id,
            "taskRunId": json_shapes.task_run_id(log.place.task_run_id),
            "step": log.step_id,
            "attempt": log.place.attempt,
            "data": {"bytes": size},
        }
    )
