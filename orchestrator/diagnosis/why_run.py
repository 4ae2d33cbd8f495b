"""Explains why a run does not go on: the reasons of its open task runs, summed.

Task runs of one task that wait in the same way wait for the same thing. So one of each such group is asked,
and a map of 100,000 items costs as much as one item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.diagnosis import why, why_held, why_waiting
from pipeweave.orchestrator.diagnosis.why_held import Oldest
from pipeweave.orchestrator.documents.run_questions import RunWhyAnswer, SummedReason
from pipeweave.orchestrator.domain.run_edits import RunEdits
from pipeweave.orchestrator.domain.states import OPEN_TASK, TaskStatus, sql_in
from pipeweave.orchestrator.reading.runs import require_run
from pipeweave.orchestrator.state import run_endings
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

# Groups that are asked: those with most task runs. The task runs of the others are only counted.
MOST_GROUPS = 20

# Of those that are held, the last in line is asked: it is held as long as any of them is.
_GROUPS = f"""
SELECT g.*, CAST(CASE WHEN g.status = 'ready' THEN g.newest ELSE g.oldest END AS uuid) AS asked FROM (
    SELECT t.task_id, t.status, t.kind, t.due_at IS NULL AS is_blocked, t.awaits IS NULL AS is_free,
           count(*) AS number, min(CAST(t.id AS text)) AS oldest, max(CAST(t.id AS text)) AS newest
    FROM task_runs AS t WHERE t.run_id = :id AND t.status IN {sql_in(OPEN_TASK)}
    GROUP BY t.task_id, t.status, t.kind, t.due_at IS NULL, t.awaits IS NULL) AS g
ORDER BY g.number DESC, g.oldest
"""

_EDITS = "SELECT r.edits FROM runs AS r WHERE r.id = :id"

_PAUSE = """
SELECT p.run_id, p.paused_at, p.paused_by, p.reason AS pause_reason FROM run_pauses AS p WHERE p.run_id = :id
"""

_WAITS = "The run waits to be resumed"
_ENDS = "The run is in its ending"

# Code of a reason -> what stands for it in a sum; a task that is named here has its own sum.
_SHORT = {
    "maintenance": "the end of maintenance",
    "run_paused": "the run to be resumed",
    "tenant_paused": "the tenant to be resumed",
    "task_paused": "{task} to be resumed",
    "service_disabled": "the service of {task} to be enabled",
    "service_away": "the service of {task}",
    "no_dispatcher": "a dispatcher",
    "run_waits": "the turn of the run",
    "key_limit": "other runs of its key",
    "key_rate": "the rate of its key",
    "predecessors_open": "predecessors",
    "join_closed": "the next look",
    "key_held": "the result of another task run",
    "retry_due": "the next attempt of {task}",
    "concurrency_limit": "a slot of {task}",
    "rate_limit": "the rate of {task}",
    "deployment_limit": "a place in the deployment",
    "goes_now": "the next second",
    "no_worker": "a worker",
    "task_not_loaded": "a worker that has {task}",
    "queued": "a free worker",
    "broker_away": "the broker",
    "message_late": "a message that was lost",
    "waiting": "something outside",
    "items_open": "their items",
    "handles_error": "what takes care of their error",
    "sleeps_until": "a time",
    "waits_for_signal": "a signal",
    "waits_for_approval": "a decision",
    "waits_for_callback": "a callback",
    "polls": "another system",
    "waits_for_run": "another run",
    "round_delay": "the next round",
}


def why_run(
    tx: Transaction, tenant: str, id: UUID, oldest: Oldest, *, is_serverless: bool = False
) -> Document:
    """Why a run does not go on: what holds most comes first.

    `reason` is that of the run itself, its pause or its ending; it is all that a run waits for without open
    task runs.

    Args:
        oldest: `Publisher.oldest`, for the messages in Redis.
        is_serverless: the tick dispatches to HTTP services, and no worker has to run for that.

    Raises:
        NotFound: the tenant has no such run.
    """
    require_run(tx, tenant, id)
    edits = RunEdits.of_json(tx.execute(_EDITS, {"id": id}).scalar_one())
    groups = tx.execute(_GROUPS, {"id": id}).all()
    running = sum(each.number for each in groups if each.status == TaskStatus.RUNNING)
    waiting = [each for each in groups if each.status != TaskStatus.RUNNING]
    reasons = []
    for each in waiting[:MOST_GROUPS]:
        asked = why.why(tx, tenant, each.asked, oldest, is_serverless=is_serverless)
        reasons.append(_reason(each, asked["reasons"]))
    number = sum(each.number for each in waiting)
    pause = tx.execute(_PAUSE, {"id": id}).one_or_none()
    held = None if pause is None else why_held.run_paused(pause, "the run")
    ending = next(iter(run_endings.find(tx, [id])), None)
    if ending is not None:
        held = why_waiting.ends(ending)
    return RunWhyAnswer.of(
        run_id=id,
        open=running + number,
        running=running,
        waiting=number,
        summary=_summary(number, reasons) or (held and (_WAITS if ending is None else _ENDS)),
        reason=held and held.to_json(),
        reasons=reasons,
        is_complete=len(waiting) <= MOST_GROUPS,
        edited_params=sorted(edits.params),
        other_input=sorted(edits.seen),
    )


def _reason(group: Any, reasons: Sequence[Document]) -> Document:
    """What holds a group back: the reason that has to go first, and the others behind it."""
    return SummedReason.of(
        group,
        count=group.number,
        task_run_id=group.asked,
        code=reasons[0]["code"] if reasons else group.status,
        text=reasons[0]["text"] if reasons else f"it is {group.status}",
        reasons=reasons,
    )


def _summary(number: int, reasons: Sequence[Document]) -> str | None:
    """`431 wait: 400 for a slot of resize, 31 for predecessors`; None if nothing waits."""
    if not number:
        return None
    sums: Counter[str] = Counter()
    for each in reasons:
        sums[_SHORT.get(each["code"], str(each["code"])).format(task=each["taskId"])] += each["count"]
    named = [f"{count:,} for {what}" for what, count in sums.most_common()]
    if (rest := number - sums.total()) > 0:
        named.append(f"{rest:,} for something else")
    return f"{number:,} {'waits' if number == 1 else 'wait'}: {', '.join(named)}"
