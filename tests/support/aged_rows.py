"""Runs of months ago, written as the verbs would have left them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.store.database import Transaction

_RUN = """
INSERT INTO runs (id, tenant_id, pipeline_id, pipeline_version, status, failure_mode, input, input_size,
                  inputs_hash, task_run_count, created_at, started_at, finished_at)
VALUES (:id, 'default', 'past', 1, CAST(:status AS text), 'fail-fast', '{"n": 1}', 7, :hash, :steps, :at, :at,
        CASE WHEN :status IN ('completed', 'cancelled') THEN CAST(:at AS timestamptz) END)
"""

_TASK_RUNS = """
INSERT INTO task_runs (run_id, id, tenant_id, step_id, task_id, kind, status, max_attempts, priority, queue,
                       is_limited, code_version, code_hash, output, created_at, queued_at, started_at,
                       finished_at, worker)
SELECT :id, e.id, 'default', 'step', 'task', 'task', 'completed', 1, 100, 'q', false, 1, 'abcd', '{"n": 2}',
       :at, :at, :at, :at, 'w@host'
FROM unnest(CAST(:ids AS uuid[])) AS e(id)
"""

_ATTEMPTS = """
INSERT INTO attempts (run_id, task_run_id, number, status, code_version, error_code, finished_at)
SELECT :id, e.id, 1, 'failed', 1, 'BOOM', :at FROM unnest(CAST(:ids AS uuid[])) AS e(id)
"""

_EVENTS = """
INSERT INTO events (run_id, at, type, task_run_id, attempt, data)
SELECT :id, :at, 'task_run.completed', e.id, 2, '{"n": 3}' FROM unnest(CAST(:ids AS uuid[])) AS e(id)
"""


def at(text: str) -> datetime:
    """The time of `2026-03-15`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


_SIGNAL = """
INSERT INTO signals (run_id, id, tenant_id, name, payload, size, sent_at, once)
VALUES (:id, :id, 'default', 'paid', '7', 1, :at, 'once')
"""


def past_run(tx: Transaction, moment: datetime, *, status: str = "completed", steps: int = 2) -> UUID:
    """A run of that time, of so many steps, each of which failed once, and one signal; its id."""
    run_id = ids.new_id(int(moment.timestamp() * 1000))
    parameters = {
        "id": run_id,
        "status": status,
        "hash": "0" * 64,
        "steps": steps,
        "at": moment,
        "ids": [ids.task_run_id(run_id, number) for number in range(1, steps + 1)],
    }
    for statement in (_RUN, _TASK_RUNS, _ATTEMPTS, _EVENTS, _SIGNAL):
        tx.execute(statement, parameters)
    return run_id


def bury(tx: Transaction, failed_at: datetime, **columns: datetime) -> None:
    """Write a dead letter; `retried_at` and `discarded_at` say what became of it."""
    run_id = ids.new_id()
    tx.execute(
        """INSERT INTO dead_letters (id, tenant_id, run_id, task_run_id, step_id, task_id, code_version,
            code_hash, attempts, error, error_code, fingerprint, failed_at, kind, status, history,
            retried_at, discarded_at)
        VALUES (:id, 'default', :run_id, :task_run_id, 's', 't', 1, 'abcd', 1, '{}', 'BOOM', 'f', :failed_at,
            'task', 'failed', '[]', :retried_at, :discarded_at)""",
        {
            "id": ids.new_id(),
            "run_id": run_id,
            "task_run_id": ids.task_run_id(run_id, 1),
            "failed_at": failed_at,
            "retried_at": columns.get("retried_at"),
            "discarded_at": columns.get("discarded_at"),
        },
    )


def count(tx: Transaction, table: str) -> int:
    """Rows of a table."""
    return int(tx.execute(f"SELECT count(*) FROM {table}").scalar_one())
