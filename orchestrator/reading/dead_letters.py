"""Read models of dead letters: lists, one dead letter in full, groups of equal failures, and redrives."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.errors import FieldError, InvalidInput, NotFound
from pipeweave.orchestrator.deadletters.filters import OPEN, LetterFilter
from pipeweave.orchestrator.documents.dead_letters import (
    DeadAttempt,
    DeadLetter,
    DeadLetterDetail,
    DeadLetterGroup,
)
from pipeweave.orchestrator.documents.operations import Redrive, RedriveOutcomes
from pipeweave.orchestrator.domain.json_shapes import duration_ms
from pipeweave.orchestrator.kept.stored_values import Loading
from pipeweave.orchestrator.operations import redrive_outcomes, redrives
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.storage import plain_path

# Status of a dead letter -> its SQL condition. The two times say it; there is no status column.
STATUSES = {
    "open": OPEN,
    "retried": "d.retried_at IS NOT NULL",
    "discarded": "d.discarded_at IS NOT NULL",
    "all": "true",
}

# A list's total counts up to this many rows: an exact total would cost too much.
MOST_COUNTED = 10_000
# Groups are made from this many of the newest dead letters.
MOST_GROUPED = 100_000
# A list shows an input of up to this many stored bytes; a single dead letter shows it at any size.
SHOWN_INPUT_BYTES = 4_096

_COLUMNS = """d.id, d.run_id, d.task_run_id, d.pipeline_id, d.step_id, d.task_id, d.kind, d.map_index,
    d.status, d.code_version, d.code_hash, d.attempts, d.input_path, d.error_code, d.fingerprint, d.failed_at,
    d.retried_at, d.retry_run_id, d.retry_task_run_id, d.discarded_at, d.discard_reason"""


def dead_letter_list(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    letter_filter: LetterFilter,
    *,
    status: str = "open",
    id_prefix: str | None = None,
) -> Document:
    """Dead letters, newest first: {items, nextCursor, total, totalIsCapped}.

    Tracebacks and inputs larger than SHOWN_INPUT_BYTES are left out.

    Args:
        status: `open`, `retried`, `discarded` or `all`.
        id_prefix: only dead letters whose id begins like this.

    Raises:
        InvalidInput: another status.
        NotFound: no id begins like `id_prefix`.
    """
    where, parameters = _where(tenant, letter_filter, status)
    if id_prefix is not None:
        lowest, highest = ids.span(ids.DEAD_LETTER, id_prefix)
        where += " AND d.id BETWEEN :lowest AND :highest"
        parameters |= {"lowest": lowest, "highest": highest}
    total = _total(tx, where, parameters)
    after = page.after("dead-letters", UUID)
    if after:
        where += " AND d.id < :after"
        parameters["after"] = after[0]
    rows = tx.execute(
        f"""SELECT {_COLUMNS}, d.error - 'traceback' AS error,
            CASE WHEN pg_column_size(d.input) <= {SHOWN_INPUT_BYTES} THEN d.input END AS input
        FROM dead_letters AS d WHERE {where} ORDER BY d.id DESC LIMIT :limit""",
        {**parameters, "limit": page.limit + 1},
    ).all()
    return {**page.cut(rows, "dead-letters", lambda row: (row.id,), _letter), **total}


def _where(tenant: str, letter_filter: LetterFilter, status: str) -> tuple[str, dict[str, Any]]:
    if status not in STATUSES:
        message = f"must be one of {', '.join(STATUSES)}"
        raise InvalidInput(f"status {message}", errors=[FieldError("status", message, "invalid_value")])
    where, parameters = letter_filter.sql(tenant)
    return f"{where} AND {STATUSES[status]}", parameters


def _total(tx: Transaction, where: str, parameters: dict[str, Any]) -> Document:
    statement = f"SELECT count(*) FROM (SELECT 1 FROM dead_letters AS d WHERE {where} LIMIT :most) AS n"
    total = int(tx.execute(statement, {**parameters, "most": MOST_COUNTED + 1}).scalar_one())
    return {"total": min(total, MOST_COUNTED), "totalIsCapped": total > MOST_COUNTED}


def _letter(row: Any, answer: type[DeadLetter] = DeadLetter, **more: Any) -> Document:
    is_standalone = row.pipeline_id is None
    return answer.of(
        row,
        # Clients use both names.
        dlq_id=row.id,
        # The API shows no run for a standalone task, only its task run.
        pipeline_run_id=None if is_standalone else row.run_id,
        status=_status(row),
        outcome=row.status,
        input_path=row.input_path and plain_path(row.input_path),
        created_at=row.failed_at,
        retry_run_id=None if is_standalone else row.retry_run_id,
        **more,
    )


def _status(row: Any) -> str:
    if row.retried_at is not None:
        return "retried"
    return "open" if row.discarded_at is None else "discarded"


# --- one dead letter --------------------------------------------------------------------------------------

# The run's history may have been dropped, and the task may be gone: the dead letter is shown all the same.
_ONE = f"""
SELECT {_COLUMNS}, d.error, d.input, d.item, d.history, k.code_version AS current_version,
       k.code_hash AS current_hash, k.orphaned_at,
       (SELECT r.status FROM runs AS r WHERE r.id = d.run_id) AS run_status,
       (SELECT t.status FROM task_runs AS t WHERE t.run_id = d.run_id AND t.id = d.task_run_id) AS now_status
FROM dead_letters AS d LEFT JOIN tasks AS k ON k.tenant_id = d.tenant_id AND k.id = d.task_id
WHERE d.tenant_id = :tenant AND d.id = :id
"""


def dead_letter(tx: Transaction, tenant: str, letter_id: UUID, *, load: bool = False) -> Document:
    """One dead letter: input, map item, every attempt with its traceback, code version then and now.

    Args:
        load: hold a StoredValue for a large input (`load_values` loads it); otherwise
            `inputPath` says where it is.

    Raises:
        NotFound: the tenant has no such dead letter, or the input is no longer in storage.
    """
    row = tx.execute(_ONE, {"tenant": tenant, "id": letter_id}).one_or_none()
    if row is None:
        shown = ids.show(ids.DEAD_LETTER, letter_id)
        raise NotFound(f"dead letter {shown} not found", dlqId=shown)
    return _letter(
        row,
        DeadLetterDetail,
        input=Loading(load).value_of(row.input, row.input_path, None),
        previous_attempts=[_attempt(each, row) for each in row.history],
        current_code_version=row.current_version,
        current_code_hash=row.current_hash,
        code_changed=row.current_hash is not None and row.current_hash != row.code_hash,
        task_is_registered=row.current_hash is not None and row.orphaned_at is None,
        # Null once the history of the run was dropped.
        task_run_status=row.now_status,
    )


def _attempt(attempt: dict[str, Any], row: Any) -> Document:
    """An attempt of the dead letter's history; the last attempt ended when the dead letter was written."""
    return DeadAttempt.of(
        attempt=attempt["attempt"],
        status=attempt["status"],
        worker=attempt.get("worker"),
        code_version=attempt.get("codeVersion"),
        error=attempt.get("error"),
        error_code=attempt.get("errorCode"),
        started_at=_time(attempt.get("startedAt")),
        finished_at=_time(attempt.get("finishedAt")) or row.failed_at,
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# --- groups -----------------------------------------------------------------------------------------------

_GROUPS = """
SELECT g.*, l.task_id, l.error_code, l.error ->> 'type' AS error_type, l.error ->> 'message' AS message,
    l.code_version, k.code_version AS current_code_version,
    k.code_hash IS NOT NULL AND k.code_hash <> l.code_hash AS code_changed
FROM (
    SELECT n.fingerprint, count(*) AS number, min(n.failed_at) AS first_failed_at,
           max(n.failed_at) AS last_failed_at,
           (array_agg(n.id ORDER BY n.id DESC))[1] AS newest
    FROM (SELECT d.id, d.fingerprint, d.failed_at FROM dead_letters AS d WHERE {where}
          ORDER BY d.id DESC LIMIT :most) AS n
    GROUP BY n.fingerprint ORDER BY count(*) DESC, n.fingerprint LIMIT :limit) AS g
JOIN dead_letters AS l ON l.id = g.newest
LEFT JOIN tasks AS k ON k.tenant_id = l.tenant_id AND k.id = l.task_id
ORDER BY g.number DESC, g.fingerprint
"""


def dead_letter_groups(
    tx: Transaction, tenant: str, limit: int, letter_filter: LetterFilter, *, status: str = "open"
) -> list[Document]:
    """Groups of dead letters with the same fingerprint, the largest first, of the newest MOST_GROUPED.

    Raises:
        InvalidInput: an unknown status.
    """
    where, parameters = _where(tenant, letter_filter, status)
    parameters |= {"most": MOST_GROUPED, "limit": limit}
    rows = tx.execute(_GROUPS.format(where=where), parameters)
    return [DeadLetterGroup.of(row, count=row.number) for row in rows]


# --- redrives ---------------------------------------------------------------------------------------------

_REDRIVES = """
SELECT w.id, w.filter, w.status, w.total, w.retried, w.skipped, w.created_at, w.finished_at, w.created_by,
    w.most, w.canary, w.canary_ended_at, w.per_second, w.stop_percent, w.stopped_because
FROM redrives AS w WHERE w.tenant_id = :tenant AND {where} ORDER BY w.id DESC LIMIT :limit
"""


def redrive(tx: Transaction, tenant: str, redrive_id: UUID) -> Document:
    """The progress of one redrive, with what became of its newest retries.

    Raises:
        NotFound: the tenant has no such redrive.
    """
    statement = _REDRIVES.format(where="w.id = :id")
    row = tx.execute(statement, {"tenant": tenant, "id": redrive_id, "limit": 1}).one_or_none()
    if row is None:
        raise redrives.TABLE.missing(redrive_id)
    return _redrive(row, RedriveOutcomes.of(redrive_outcomes.count(tx, redrive_id)))


def redrive_list(
    tx: Transaction, tenant: str, page: PageRequest, *, id_prefix: str | None = None
) -> Document:
    """The redrives of a tenant, newest first: {items, nextCursor}.

    Args:
        id_prefix: only redrives whose id begins like this.

    Raises:
        NotFound: no id begins like `id_prefix`.
    """
    after = page.after("redrives", UUID)
    where = ["w.id < :after"] if after else []
    parameters: dict[str, Any] = {"tenant": tenant, "after": after and after[0], "limit": page.limit + 1}
    if id_prefix is not None:
        where.append("w.id BETWEEN :lowest AND :highest")
        parameters["lowest"], parameters["highest"] = ids.span(ids.REDRIVE, id_prefix)
    rows = tx.execute(_REDRIVES.format(where=" AND ".join(where) or "true"), parameters).all()
    return page.cut(rows, "redrives", lambda row: (row.id,), _redrive)


_FILTER_NAMES = {
    "pipeline_id": "pipelineId",
    "task_id": "taskId",
    "error_code": "errorCode",
    "fingerprint": "fingerprint",
    "since": "since",
    "until": "until",
    "pipeline_run_id": "pipelineRunId",
    "task_run_id": "taskRunId",
}


def _redrive(row: Any, outcomes: Document | None = None) -> Document:
    return Redrive.of(
        row,
        filter={_FILTER_NAMES[name]: value for name, value in row.filter.items()},
        duration_ms=duration_ms(row.created_at, row.finished_at),
        limit=row.most,
        stop_on_same_fingerprint=row.stop_percent,
        outcomes=outcomes,
    )
