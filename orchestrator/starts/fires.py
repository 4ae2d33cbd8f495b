"""Writes what fires for an event, of triggers and of hooks, and ends it: each is one guarded statement.

A fire waits from the transaction that reads its event until the one that starts its run, or until the last
try to call its URL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.triggered_by import EVENT, TriggeredBy
from pipeweave.orchestrator.feed import FeedEvent
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import event_documents, failures
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.orchestrator.store.keyset import Document

Table = Literal["event_fires", "hook_fires"]

# Runs that began each other one after the other.
MAX_DEPTH = 10
# Why what follows is skipped.
LOOP = "LOOP"

_DEPTHS = """
SELECT f.started_run_id, max(f.depth) AS depth FROM (
    SELECT e.started_run_id, e.depth FROM event_fires AS e
    WHERE e.started_run_id = ANY(CAST(:ids AS uuid[]))
    UNION ALL
    SELECT h.started_run_id, h.depth FROM hook_fires AS h
    WHERE h.started_run_id = ANY(CAST(:ids AS uuid[]))
) AS f GROUP BY f.started_run_id
"""


def depths(tx: Transaction, run_ids: Collection[UUID]) -> dict[UUID, int]:
    """How many fires led to each of these runs; those that none led to are left out."""
    rows = tx.execute(_DEPTHS, {"ids": list(run_ids)}) if run_ids else ()
    return {each.started_run_id: each.depth for each in rows}


def of_event(tx: Transaction, event: FeedEvent, document: Document, depths: Mapping[UUID, int]) -> Document:
    """The columns that all fires of an event have. Runs that begin each other end at MAX_DEPTH.

    Args:
        depths: how many fires led to the run of the event.
    """
    depth = depths.get(event.run_id, 0) + 1
    is_loop = depth > MAX_DEPTH
    return {
        "id": str(tx.new_id()),
        "tenant_id": event.tenant,
        "run_id": str(event.run_id),
        "seq": event.seq,
        "event": document,
        "depth": depth,
        "outcome": "skipped" if is_loop else "waiting",
        "reason": LOOP if is_loop else None,
    }


def request(pipeline_id: str, event: Document, input: Any, name: str, id: str) -> StartRequest:
    """The run that a fire starts.

    Args:
        event: the document of the fire.
        input: the input of the run.
        name: of what fired in the metadata of the run: `triggerId`.
    """
    of = event_documents.key_of(event)
    metadata = {name: id, "event": event["type"], "of": of}
    return StartRequest(pipeline_id, input, metadata=metadata, triggered_by=TriggeredBy(EVENT, id, of))


_WRITE = """
INSERT INTO {table} (id, tenant_id, run_id, seq, event, depth, outcome, reason, {columns}, created_at, due_at,
    fired_at)
SELECT f.id, f.tenant_id, f.run_id, f.seq, f.event, f.depth, f.outcome, f.reason, {columns}, :now,
    CASE WHEN f.outcome = 'waiting' THEN CAST(:now AS timestamptz) END,
    CASE WHEN f.outcome <> 'waiting' THEN CAST(:now AS timestamptz) END
FROM jsonb_to_recordset(CAST(:fires AS jsonb)) AS f(id uuid, tenant_id text, run_id uuid, seq bigint,
    event jsonb, depth integer, outcome text, reason text, {types})
ON CONFLICT DO NOTHING
"""
_WRITE_IN = {
    "event_fires": _WRITE.format(table="event_fires", columns="trigger_id", types="trigger_id text"),
    "hook_fires": _WRITE.format(
        table="hook_fires",
        columns="pipeline_id, hook, place, target_pipeline, url, secret",
        types="pipeline_id text, hook text, place integer, target_pipeline text, url text, secret text",
    ),
}


def write(tx: Transaction, table: Table, fires: Sequence[Document]) -> None:
    """Note these fires: the columns of `of_event` and those of the table alone."""
    if fires:
        tx.execute(_WRITE_IN[table], {"fires": to_json(fires), "now": tx.now})


_END = """
UPDATE {table} SET outcome = :outcome, reason = :reason, error_code = :error_code, error = :error,
    started_run_id = :run_id, due_at = NULL, fired_at = :now
WHERE id = :id AND due_at IS NOT NULL
"""
_END_IN = {"event_fires": _END.format(table="event_fires"), "hook_fires": _END.format(table="hook_fires")}


def end(
    tx: Transaction,
    table: Table,
    id: UUID,
    runs: Sequence[CreatedRun],
    failure: PipeWeaveError | None,
    skipped: str | None = None,
) -> None:
    """End a fire that is locked.

    Args:
        runs: the run that it started.
        failure: why none could start.
        skipped: why none should.
    """
    outcome = "skipped" if skipped else "failed" if failure else "fired"
    parameters = {
        "id": id,
        "outcome": outcome,
        "reason": skipped,
        "run_id": runs[0].id if runs else None,
        "now": tx.now,
    }
    tx.execute(_END_IN[table], parameters | failures.columns(None if skipped else failure))
