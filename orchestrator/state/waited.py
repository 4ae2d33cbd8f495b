"""What the event of an end says of the wait that was before it: `wait` (its kind), `waitedMs` and, where it
is known when what ended it had come, `lateMs`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pipeweave.orchestrator.domain.waits import Wait


def _ms_since(moment: str) -> str:
    elapsed = f"1000 * extract(epoch FROM CAST(:now AS timestamptz) - {moment})"
    return f"CAST(greatest(0, {elapsed}) AS bigint)"


# SQL: of an attempt `m` that ended badly; an empty object where it did not wait.
OF_A_FAILURE = f"""coalesce((SELECT jsonb_strip_nulls(jsonb_build_object('wait', w.kind,
        'waitedMs', {_ms_since("w.created_at")},
        'lateMs', CASE WHEN w.timeout_at <= :now THEN {_ms_since("w.timeout_at")} END))
    FROM waits AS w WHERE w.run_id = m.run_id AND w.task_run_id = m.id AND w.attempt = m.ended), '{{}}')"""


def of_a_completion(wait: Wait, came_at: datetime | None, now: datetime) -> dict[str, Any]:
    """What the event of a completion says of the wait that was before it.

    Args:
        came_at: when what ended it had come; None if that says nothing.
    """
    began = wait.created_at
    return {
        "wait": wait.kind,
        "waitedMs": _ms(began, now),
        "lateMs": None if came_at is None else _ms(max(came_at, began), now),
    }


def _ms(earlier: datetime, later: datetime) -> int:
    return max(0, int((later - earlier).total_seconds() * 1000))
