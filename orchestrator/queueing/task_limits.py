"""Sets the limits of a task by hand, beside those that its code declares.

What holds stands in the columns that everything reads (`concurrency`, `rate_limit`, `rate_seconds`), so a
claim or a release costs nothing more. What the code declares is kept beside it: a registration writes it and
lets an override hold (registry/code_versions.py), until an operator takes the override away.
"""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.queueing import limits
from pipeweave.orchestrator.registry import code_versions, unknown_names
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.rates import parse_rate

NO_RATE = ""
"""An override that takes a rate limit away."""

# A task with its first limit is marked, so that its open task runs get it, too (recovery/task_moves.py).
# Starts that the old rate had used up must not delay those of the new one.
_SET = """
UPDATE tasks AS t SET
    declared_concurrency = CAST(:declared_concurrency AS integer),
    declared_rate = CAST(:declared_rate AS text),
    concurrency_override = CAST(:concurrency AS integer), rate_override = CAST(:rate AS text),
    concurrency = CAST(:held_concurrency AS integer),
    rate_limit = CAST(:held_limit AS integer), rate_seconds = CAST(:held_seconds AS double precision),
    rate_at = CASE WHEN (t.rate_limit, t.rate_seconds) IS NOT DISTINCT FROM
        (CAST(:held_limit AS integer), CAST(:held_seconds AS double precision)) THEN t.rate_at END,
    limits_set_at = CASE WHEN :is_set THEN now() END, limits_set_by = CASE WHEN :is_set THEN :by END,
    limits_reason = CASE WHEN :is_set THEN :reason END,
    follow_at = CASE WHEN :gains AND t.concurrency = 0 AND t.rate_limit IS NULL
        THEN now() ELSE t.follow_at END,
    follow_until = CASE WHEN :gains AND t.concurrency = 0 AND t.rate_limit IS NULL
        THEN now() + CAST(:settled AS interval) ELSE t.follow_until END,
    updated_at = now()
WHERE t.tenant_id = :tenant AND t.id = :task
"""
_LOCK = """
SELECT k.concurrency, k.rate_limit, k.rate_seconds, k.declared_concurrency, k.declared_rate
FROM tasks AS k WHERE k.tenant_id = :tenant AND k.id = :task FOR NO KEY UPDATE
"""


def set_limits(
    tx: Transaction,
    tenant: str,
    task: str,
    *,
    concurrency: int | None,
    rate: str | None,
    by: str | None = None,
    reason: str | None = None,
) -> None:
    """Let these limits of a task hold instead of those that its code declares, and release what has room now.

    Args:
        concurrency: task runs at once; 0 for no limit, None for what the code declares.
        rate: starts in a time, as `100/m`; NO_RATE for no limit, None for what the code declares.
        by: who sets them.

    Raises:
        NotFound: the tenant has no such task.
    """
    row: Any = tx.execute(_LOCK, {"tenant": tenant, "task": task}).one_or_none()
    if row is None:
        raise unknown_names.not_found(tx, tenant, "task", task, taskId=task)
    declared = code_versions.declared_of(row)
    held = code_versions.held(declared, concurrency, rate)
    rate_held = parse_rate(held.rate) if held.rate else None
    tx.execute(
        _SET,
        {
            "tenant": tenant,
            "task": task,
            "declared_concurrency": declared.concurrency,
            "declared_rate": declared.rate,
            "concurrency": concurrency,
            "rate": rate,
            "held_concurrency": held.concurrency,
            "held_limit": rate_held and rate_held.limit,
            "held_seconds": rate_held and rate_held.seconds,
            "is_set": concurrency is not None or rate is not None,
            "by": by,
            "reason": reason,
            "gains": held.concurrency > 0 or rate_held is not None,
            "settled": code_versions.SETTLED_AFTER,
        },
    )
    limits.fill(tx, tenant, [task])
