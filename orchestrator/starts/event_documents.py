"""Reads what a trigger of events gets: a run or a task run that ended, as one JSON document.

What is larger than INLINE_BYTES stays where it is: `input` or `output` is null, and a reference says where.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import orjson

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.json_shapes import iso, reference, run_id, task_run_id
from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.kept import outputs
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.starts.triggers.row import PIPELINE_COMPLETED, TASK_COMPLETED
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import STEPS

log = logging.getLogger(__name__)

# Event type of the feed -> the event of triggers, and the status that it tells.
KINDS = {
    "run.completed": (PIPELINE_COMPLETED, "completed"),
    "run.partial": (PIPELINE_COMPLETED, "partial"),
    "run.failed": (PIPELINE_COMPLETED, "failed"),
    "run.cancelled": (PIPELINE_COMPLETED, "cancelled"),
    "task_run.completed": (TASK_COMPLETED, "completed"),
    "task_run.failed": (TASK_COMPLETED, "failed"),
    "task_run.timed_out": (TASK_COMPLETED, "timeout"),
}

_RUN = """
SELECT r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, r.body, r.status, r.error, r.input, r.input_path,
    r.input_size, r.inputs_hash, r.started_at, r.finished_at, r.triggered_kind, r.triggered_id,
    r.triggered_actor
FROM runs AS r WHERE r.id = :id AND r.tenant_id = :tenant AND r.parent_run_id IS NULL
"""


def of_run(tx: Transaction, event: FeedEvent) -> Document | None:
    """The document of the end of a run; None when its history was dropped, or it
    belongs to another run, whose end is what counts."""
    row = tx.execute(_RUN, {"id": event.run_id, "tenant": event.tenant}).one_or_none()
    if row is None:
        return None
    kind, status = KINDS[event.type]
    cause = triggered_by.of_row(row)
    # A run that was continued since has other results by now.
    is_same = row.status == status
    shown = outputs.of_run(tx, event.tenant, row, Loading(False)) if is_same else {}
    output = shown.get("output")
    is_large = len(orjson.dumps(output)) > INLINE_BYTES
    return {
        "type": kind,
        "at": iso(event.at),
        "runId": run_id(row.id),
        "pipelineId": row.pipeline_id,
        "pipelineVersion": row.pipeline_version,
        "status": status,
        "error": (row.error if is_same else None) or _of_event(event),
        "input": None if row.input_path is not None else row.input,
        "inputRef": reference(row.input_path, row.input_size, row.inputs_hash),
        "output": None if is_large else output,
        "outputRefs": shown.get("outputRefs", {}),
        "outputIsLarge": is_large,
        "triggeredBy": cause and cause.to_json(),
        "startedAt": iso(row.started_at),
        "finishedAt": iso(event.at),
    }


def _of_event(event: FeedEvent) -> Document | None:
    if "errorCode" not in event.data:
        return None
    return {"code": event.data["errorCode"], "message": event.data.get("error")}


_TASK_RUNS = """
SELECT t.id, t.task_id, t.step_id, t.kind, t.status, t.attempt, t.error, t.output, t.output_path,
    t.output_size, t.output_hash, t.started_at, r.pipeline_id
FROM unnest(CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[])) AS w(run_id, id)
    JOIN task_runs AS t ON t.run_id = w.run_id AND t.id = w.id
    JOIN runs AS r ON r.id = w.run_id
"""


def task_runs(tx: Transaction, events: Collection[FeedEvent]) -> Mapping[UUID, Any]:
    """The rows of the task runs of events, by id. Items of a map are left out: the map counts once, when all
    of its items are over.
    """
    wanted = [each for each in events if each.task_run_id is not None]
    if not wanted:
        return {}
    keys = {"run_ids": [each.run_id for each in wanted], "ids": [each.task_run_id for each in wanted]}
    return {row.id: row for row in tx.execute(_TASK_RUNS, keys) if row.kind in STEPS}


def of_task_run(event: FeedEvent, row: Any) -> Document:
    """The document of the end of a task run.

    Args:
        row: of `task_runs`.
    """
    kind, status = KINDS[event.type]
    is_same = row.status == status
    return {
        "type": kind,
        "at": iso(event.at),
        "runId": run_id(event.run_id),
        "taskRunId": task_run_id(row.id),
        "pipelineId": row.pipeline_id,
        "taskId": row.task_id,
        "stepId": None if row.pipeline_id is None else row.step_id,
        "status": status,
        "attempt": event.attempt or row.attempt,
        "error": row.error if is_same else None,
        "output": row.output if is_same and row.output_path is None else None,
        "outputRef": reference(row.output_path, row.output_size, row.output_hash) if is_same else None,
        "startedAt": iso(row.started_at),
        "finishedAt": iso(event.at),
    }


def of_events(tx: Transaction, events: Collection[FeedEvent]) -> dict[int, Document]:
    """The documents of events, by their numbers. What cannot be read is left out: it fires nothing."""
    rows = task_runs(tx, events)
    documents: dict[int, Document] = {}
    for each in events:
        if each.task_run_id is None:
            document = _readable(tx, each)
        else:
            row = rows.get(each.task_run_id)
            document = None if row is None else of_task_run(each, row)
        if document is not None:
            documents[each.seq] = document
    return documents


def _readable(tx: Transaction, event: FeedEvent) -> Document | None:
    try:
        return of_run(tx, event)
    except PipeWeaveError as error:
        # The event fires nothing; those after it do.
        log.error("triggers.event_unreadable", extra={"run_id": run_id(event.run_id), "reason": error.detail})
        return None


def key_of(event: Mapping[str, Any]) -> str:
    """The id of what ended, or waits."""
    return str(event.get("taskRunId") or event.get("waitId") or event["runId"])
