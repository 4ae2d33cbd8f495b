"""Reads what a hook gets of an approval that began to wait, as one JSON document: who decides about what."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from pipeweave.orchestrator.domain import triggered_by
from pipeweave.orchestrator.domain.json_shapes import iso, run_id, task_run_id
from pipeweave.orchestrator.domain.waits import APPROVAL
from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# The type of the event in the feed, and of the document.
WAITING: Final = "task_run.waiting"
APPROVAL_WAITING: Final = "approval-waiting"


def is_approval(event: FeedEvent) -> bool:
    """Whether an event says that an approval began to wait."""
    return event.type == WAITING and event.data.get("kind") == APPROVAL


# A map's approvals have the same step: they are told apart by their ids.
_APPROVALS = f"""
SELECT t.id, t.run_id, t.step_id, r.pipeline_id, r.pipeline_version, coalesce(r.root_run_id, r.id) AS root_id,
    r.started_at, r.triggered_kind, r.triggered_id, r.triggered_actor, w.data, w.timeout_at
FROM unnest(CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[])) AS n(run_id, id)
    JOIN task_runs AS t ON t.run_id = n.run_id AND t.id = n.id
    JOIN runs AS r ON r.id = n.run_id
    LEFT JOIN waits AS w ON w.run_id = n.run_id AND w.task_run_id = n.id AND w.kind = '{APPROVAL}'
"""


def of_events(tx: Transaction, events: Collection[FeedEvent]) -> dict[int, Document]:
    """The documents of those of these events that say that an approval began to wait, by their numbers."""
    approvals = [each for each in events if is_approval(each)]
    if not approvals:
        return {}
    keys = {
        "run_ids": [each.run_id for each in approvals],
        "ids": [each.task_run_id for each in approvals],
    }
    rows = {row.id: row for row in tx.execute(_APPROVALS, keys)}
    pairs = ((each, rows.get(each.task_run_id)) for each in approvals)
    return {each.seq: _document(each, row) for each, row in pairs if row is not None}


def _document(event: FeedEvent, row: Any) -> Document:
    cause = triggered_by.of_row(row)
    return {
        "type": APPROVAL_WAITING,
        "at": iso(event.at),
        "runId": run_id(row.run_id),
        "rootRunId": run_id(row.root_id),
        "waitId": task_run_id(row.id),
        "pipelineId": row.pipeline_id,
        "pipelineVersion": row.pipeline_version,
        "stepId": row.step_id,
        **({} if row.data is None else _asked(row)),
        "startedAt": iso(row.started_at),
        "triggeredBy": cause and cause.to_json(),
    }


def _asked(row: Any) -> Document:
    return {
        "title": row.data["title"],
        "assignees": row.data["assignees"],
        "needs": row.data["needs"],
        "options": row.data["options"],
        "timeoutAt": iso(row.timeout_at),
        "hasDefault": "default" in row.data,
        "default": row.data.get("default"),
    }


def is_over(document: Document) -> bool:
    """Whether an approval was decided before its document was made, so that nobody has to be asked."""
    return document["type"] == APPROVAL_WAITING and "title" not in document
