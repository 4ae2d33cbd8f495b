"""Makes the rows of a run as its events say, for `diagnosis/repairing`.

What the events do not tell stays as it is in the row (its task, its priority, when it began); times that a
status needs are those of the event that gave it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from pipeweave.orchestrator.domain.states import FAILED_TASK, FINAL_RUN, FINAL_TASK, UNSTARTED_TASK, sql_in
from pipeweave.orchestrator.store.database import Transaction

_LOCK = "SELECT r.id FROM runs AS r WHERE r.id = :run_id FOR UPDATE"

_RUN = f"""
UPDATE runs SET status = CAST(:status AS text), error_code = CAST(:code AS text),
    started_at = CASE WHEN :has_started THEN coalesce(started_at, CAST(:began AS timestamptz)) END,
    finished_at = CASE WHEN CAST(:status AS text) IN {sql_in(FINAL_RUN)}
        THEN coalesce(finished_at, CAST(:moved AS timestamptz)) END,
    error = CASE WHEN CAST(:code AS text) IS NULL THEN NULL ELSE coalesce(error,
        jsonb_build_object('code', CAST(:code AS text), 'message', CAST(:message AS text))) END
WHERE id = :run_id
"""

_LOST = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority, queue,
    is_limited, code_version, code_hash, timeout_ms, queue_name, requires, created_at)
SELECT r.id, s.id, r.tenant_id, s.step_id, s.task_id, s.kind, s.status, s.max_attempts, s.priority, s.queue,
    s.is_limited, s.code_version, s.code_hash, s.timeout_ms, s.queue_name, s.requires, r.created_at
FROM runs AS r, jsonb_to_recordset(CAST(:rows AS jsonb)) AS s(id uuid, step_id text, task_id text, kind text,
    status text, max_attempts integer, priority integer, queue text, is_limited boolean, code_version integer,
    code_hash text, timeout_ms bigint, queue_name text, requires jsonb)
WHERE r.id = :run_id
"""

# A claim needs a heartbeat: one that nobody holds is found silent, and its attempt is lost.
_TASK_RUNS = f"""
UPDATE task_runs AS t SET status = f.status, attempt = f.attempt, worker = f.worker,
    error_code = f.error_code, selected_next = f.selected_next, map_first = f.map_first,
    map_count = f.map_count, output_hash = f.output_hash,
    output = CASE WHEN f.is_null THEN coalesce(t.output, CAST('null' AS jsonb))
        WHEN f.output_hash IS NOT NULL THEN t.output END,
    output_path = CASE WHEN f.output_hash IS NOT NULL THEN t.output_path END,
    output_size = CASE WHEN f.output_hash IS NOT NULL THEN coalesce(t.output_size, f.output_size) END,
    error = CASE WHEN f.error_code IS NULL THEN NULL
        WHEN f.status IN {sql_in(FAILED_TASK)} THEN coalesce(t.error,
            jsonb_build_object('code', f.error_code, 'message', f.message)) ELSE t.error END,
    queued_at = CASE WHEN f.was_released THEN coalesce(t.queued_at, f.moved_at) END,
    started_at = CASE WHEN f.status IN {sql_in(UNSTARTED_TASK)} THEN NULL
        WHEN f.status = 'running' THEN coalesce(t.started_at, f.moved_at) ELSE t.started_at END,
    claimed_at = CASE WHEN f.status = 'running' THEN coalesce(t.claimed_at, f.moved_at) ELSE t.claimed_at END,
    heartbeat_at = CASE WHEN f.status = 'running' THEN coalesce(t.heartbeat_at, f.moved_at)
        ELSE t.heartbeat_at END,
    finished_at = CASE WHEN f.status IN {sql_in(FINAL_TASK)} THEN coalesce(t.finished_at, f.moved_at) END,
    due_at = CASE WHEN f.is_due THEN coalesce(t.due_at, :now) ELSE t.due_at END
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f(id uuid, status text, attempt integer,
    was_released boolean, worker text, error_code text, message text, selected_next text[],
    map_first integer, map_count integer, output_hash text, is_null boolean, output_size integer,
    moved_at timestamptz, is_due boolean)
WHERE t.run_id = :run_id AND t.id = f.id
"""

_ATTEMPTS = """
INSERT INTO attempts
    (run_id, task_run_id, number, status, worker, code_version, error, error_code, finished_at)
SELECT t.run_id, t.id, f.number, f.status, f.worker, t.code_version,
    jsonb_build_object('code', f.error_code, 'message', f.message), f.error_code, f.ended_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f(id uuid, number integer, status text, worker text,
        error_code text, message text, ended_at timestamptz)
    JOIN task_runs AS t ON t.run_id = :run_id AND t.id = f.id
ON CONFLICT (run_id, task_run_id, number) DO UPDATE
    SET status = EXCLUDED.status, worker = EXCLUDED.worker, error_code = EXCLUDED.error_code
"""

_NO_ATTEMPTS = """
DELETE FROM attempts AS a USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS f(id uuid, number integer)
WHERE a.run_id = :run_id AND a.task_run_id = f.id AND a.number = f.number
"""


def lock(tx: Transaction, run_id: UUID) -> bool:
    """Lock a run against changes of its status; False if there is no such run."""
    return tx.execute(_LOCK, {"run_id": run_id}).first() is not None


def set_run(
    tx: Transaction,
    run_id: UUID,
    *,
    status: str,
    has_started: bool,
    code: str | None,
    message: str | None,
    began: datetime | None,
    moved: datetime | None,
) -> None:
    """Give a run this status, with the error and the times that belong to it.

    Args:
        code: of its error; None: it has none.
        began: when it was no longer pending.
        moved: when it got the status.
    """
    values = {"run_id": run_id, "status": status, "has_started": has_started, "code": code}
    tx.execute(_RUN, {**values, "message": message, "began": began, "moved": moved})


def insert_task_runs(tx: Transaction, run_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write lost rows of steps as they were before anything happened to them."""
    _write(tx, _LOST, run_id, rows)


def set_task_runs(tx: Transaction, run_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    """Make task runs as these rows say."""
    _write(tx, _TASK_RUNS, run_id, rows)


def set_attempts(tx: Transaction, run_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write attempts that are lost, or make them as these rows say."""
    _write(tx, _ATTEMPTS, run_id, rows)


def delete_attempts(tx: Transaction, run_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    """Delete attempts that no event tells of."""
    _write(tx, _NO_ATTEMPTS, run_id, rows)


def _write(tx: Transaction, statement: str, run_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        shown = orjson.dumps([dict(each) for each in rows]).decode()
        tx.execute(statement, {"run_id": run_id, "rows": shown, "now": tx.now})
