"""Holds the SQL that the statements about failed attempts share: their rows, and their records."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.states import TaskStatus
from pipeweave.orchestrator.domain.task_run import TaskRun

# The columns of a row `f` of a failed attempt.
ENDED = """id uuid, attempt integer, outcome text, worker text, started_at timestamptz, code_version integer,
    message text, code text, error jsonb, is_begun boolean, dispatched_at timestamptz, logs_path text"""


def archived(conflict: str = "") -> str:
    """SQL: the record of the attempt of a row that `moved` has moved.

    Args:
        conflict: what to do where there is such a record already; by default that is an error.
    """
    return f"""archived AS (
    INSERT INTO attempts (run_id, task_run_id, number, status, worker, code_version, error, error_code,
        started_at, dispatched_at, logs_path, finished_at)
    SELECT :run_id, m.id, m.ended, m.outcome, m.ended_by, m.ended_version, m.ended_error, m.code,
        m.begun_at, m.sent_at, m.ended_logs, :now
    FROM moved AS m WHERE m.is_begun{conflict}
)"""


# What `moved` returns for it.
OF_THE_ATTEMPT = """, f.attempt AS ended, f.outcome, f.worker AS ended_by, f.code_version AS ended_version,
    f.error AS ended_error, f.code, f.message, f.started_at AS begun_at, f.is_begun,
    f.dispatched_at AS sent_at, f.logs_path AS ended_logs"""


def ended_row(task_run: TaskRun, row: Any, failure: Failure) -> dict[str, Any]:
    """The row of ENDED of a failed attempt.

    Args:
        row: of its task run, as `attempts.end` has locked it.
    """
    return {
        "id": str(task_run.id),
        "attempt": task_run.attempt,
        "outcome": failure.outcome.value,
        "worker": row.worker,
        "started_at": row.started_at,
        "dispatched_at": row.dispatched_at,
        "logs_path": failure.logs_path,
        "code_version": row.code_version,
        "message": failure.message,
        "code": failure.code,
        "error": failure.to_json(),
        "is_begun": row.started_at is not None and row.status != TaskStatus.PENDING,
    }
