"""Writes the row of a run that is lost, and dead letters that are gone, for `diagnosis/repairing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from pipeweave.orchestrator.store.database import Transaction

# Runs of the same pipeline among which an input is looked for, the newest first.
MOST_LOOKED_AT = 1_000

_TENANT = """
SELECT t.tenant_id FROM task_runs AS t WHERE t.run_id = :run_id
UNION SELECT d.tenant_id FROM dead_letters AS d WHERE d.run_id = :run_id LIMIT 2
"""

_INPUT = """
SELECT r.input, r.input_path, r.input_size FROM (
    SELECT s.inputs_hash, s.input, s.input_path, s.input_size FROM runs AS s
    WHERE s.tenant_id = :tenant AND s.pipeline_id = :pipeline ORDER BY s.id DESC LIMIT :most) AS r
WHERE r.inputs_hash = :hash LIMIT 1
"""

_VERSION = """
SELECT 1 FROM pipeline_versions AS v
WHERE v.tenant_id = :tenant AND v.pipeline_id = :pipeline AND v.version = :version
"""

# Its status, and the times that belong to that, come with `repairing.set_run`.
_RUN = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, priority, input,
    input_path, input_size, inputs_hash, run_token, metadata, edits, task_run_count, created_at,
    triggered_kind, triggered_id, triggered_actor, rerun_of, rerun_from)
SELECT r.id, r.tenant_id, r.pipeline_id, r.pipeline_version, 'pending', r.failure_mode, r.priority, r.input,
    r.input_path, r.input_size, r.inputs_hash, r.run_token, r.metadata, r.edits, r.task_run_count,
    r.created_at, r.triggered_kind, r.triggered_id, r.triggered_actor, r.rerun_of, r.rerun_from
FROM jsonb_to_record(CAST(:row AS jsonb)) AS r(id uuid, tenant_id text, pipeline_id text,
    pipeline_version integer, failure_mode text, priority integer, input jsonb, input_path text,
    input_size integer, inputs_hash text, run_token text, metadata jsonb, edits jsonb, task_run_count integer,
    created_at timestamptz, triggered_kind text, triggered_id text, triggered_actor text, rerun_of uuid,
    rerun_from text)
ON CONFLICT DO NOTHING
"""

_LETTERS = "SELECT d.task_run_id, d.attempts FROM dead_letters AS d WHERE d.run_id = :run_id"

_FAILED = """
SELECT t.id, t.step_id, t.task_id, t.error, t.error_code FROM task_runs AS t
WHERE t.run_id = :run_id AND t.id = ANY(CAST(:ids AS uuid[])) ORDER BY t.id
"""

# As `state/attempts.py` writes them, from what the rows say.
_LETTER = """
INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, pipeline_id, step_id, task_id, kind, map_index,
    code_version, code_hash, attempts, status, input, input_path, item, error, error_code, fingerprint,
    history, failed_at)
SELECT f.letter, r.tenant_id, t.run_id, t.id, r.pipeline_id, t.step_id, t.task_id, t.kind, t.map_index,
    t.code_version, t.code_hash, t.attempt, t.status::text, r.input, r.input_path, t.item, t.error,
    t.error_code, f.fingerprint,
    coalesce((SELECT jsonb_agg(jsonb_build_object('attempt', a.number, 'status', a.status,
            'worker', a.worker, 'codeVersion', a.code_version, 'error', a.error,
            'errorCode', a.error_code, 'startedAt', a.started_at, 'finishedAt', a.finished_at)
            ORDER BY a.number)
        FROM attempts AS a WHERE a.run_id = t.run_id AND a.task_run_id = t.id), '[]'::jsonb),
    f.failed_at
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS f(id uuid, letter uuid, fingerprint text,
        failed_at timestamptz)
    JOIN task_runs AS t ON t.run_id = :run_id AND t.id = f.id JOIN runs AS r ON r.id = t.run_id
ON CONFLICT DO NOTHING
"""


def tenant_of(tx: Transaction, run_id: UUID) -> str | None:
    """The tenant of a run whose row is lost, as its other rows say; None if none is left."""
    tenants = tx.execute(_TENANT, {"run_id": run_id}).scalars()
    return str(tenants[0]) if len(tenants) == 1 else None


def has_version(tx: Transaction, tenant: str, pipeline_id: str, version: int) -> bool:
    """Whether a version of a pipeline is stored."""
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "version": version}
    return tx.execute(_VERSION, parameters).first() is not None


def same_input(tx: Transaction, tenant: str, pipeline_id: str, digest: str) -> Any:
    """{input, input_path, input_size} of a run of the pipeline whose input has this hash, or None."""
    parameters = {"tenant": tenant, "pipeline": pipeline_id, "hash": digest, "most": MOST_LOOKED_AT}
    return tx.execute(_INPUT, parameters).one_or_none()


def insert_run(tx: Transaction, row: Mapping[str, Any]) -> None:
    """Write the row of a lost run, as pending."""
    tx.execute(_RUN, {"row": orjson.dumps(dict(row)).decode()})


def letters_of(tx: Transaction, run_id: UUID) -> set[tuple[UUID, int]]:
    """The task runs and attempts of a run that have a dead letter, open or not."""
    return {(row.task_run_id, row.attempts) for row in tx.execute(_LETTERS, {"run_id": run_id})}


def failed_rows(tx: Transaction, run_id: UUID, ids: Sequence[UUID]) -> Sequence[Any]:
    """{id, step_id, task_id, error, error_code} of task runs."""
    return list(tx.execute(_FAILED, {"run_id": run_id, "ids": list(ids)}).all())


def insert_letters(tx: Transaction, run_id: UUID, rows: Sequence[tuple[UUID, str, datetime]]) -> None:
    """Write open dead letters: of each the task run, the fingerprint, and when it failed."""
    shown = [
        {"id": id, "letter": tx.new_id(), "fingerprint": shape, "failed_at": at} for id, shape, at in rows
    ]
    if shown:
        tx.execute(_LETTER, {"run_id": run_id, "rows": orjson.dumps(shown).decode()})
