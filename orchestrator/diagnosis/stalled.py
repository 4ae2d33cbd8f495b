"""Finds stalled work in a deployment: since when, why, and what will mend it. It changes nothing.

Each query reads an index of open rows, so history does not make it slower. Work that the tick mends counts as
stalled only when it is overdue by twice the tick's own threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from uuid import UUID

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis import stalled_runs
from pipeweave.orchestrator.domain import kind_sql, queue_names
from pipeweave.orchestrator.domain.states import LIVE_TASK, sql_in
from pipeweave.orchestrator.messaging.publisher import Publisher, level
from pipeweave.orchestrator.queueing import deployment_limit
from pipeweave.orchestrator.recovery import lost_messages, tick_status
from pipeweave.orchestrator.recovery.lost_messages import LATE as TICK_LATE
from pipeweave.orchestrator.registry.worker_processes import LOST_AFTER, WORKER_OF
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.state.pause_sql import IS_RUN_PAUSED, is_paused
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.settings import Settings

# Report only work that is overdue by twice the tick's own threshold.
LATE = 2 * TICK_LATE
# Items reported of each kind.
MOST_PER_KIND = 100


class StalledKind(StrEnum):
    """The kinds of stalled work."""

    MAINTENANCE = "maintenance"
    TICK_SILENT = "tick_silent"
    BROKER_AWAY = "broker_away"
    WORKER_SILENT = "worker_silent"
    WORKER_GONE = "worker_gone"
    ATTEMPT_SILENT = "attempt_silent"
    MESSAGE_LOST = "message_lost"
    RETRY_OVERDUE = "retry_overdue"
    LIMIT_HAS_ROOM = "limit_has_room"
    JOIN_CLOSED = "join_closed"
    RUN_WITHOUT_LIVE_ROW = "run_without_live_row"
    RUN_OVERDUE = "run_overdue"


REMEDIES: dict[StalledKind, str] = {
    StalledKind.MAINTENANCE: "end it: `pipeweave maintenance exit`",
    StalledKind.TICK_SILENT: "start `pipeweave beat`",
    StalledKind.BROKER_AWAY: "start the broker; then the tick sends what was lost",
    StalledKind.WORKER_SILENT: "after two checks the tick declares the worker lost and retries its attempts",
    StalledKind.WORKER_GONE: "the tick ends the attempt as lost; the next attempt follows, if one is left",
    StalledKind.ATTEMPT_SILENT: "after two checks the tick ends the attempt as timed out",
    StalledKind.MESSAGE_LOST: "the tick sends the message again",
    StalledKind.RETRY_OVERDUE: "the tick releases the attempt",
    StalledKind.LIMIT_HAS_ROOM: "the tick releases task runs until the limit is full",
    StalledKind.JOIN_CLOSED: "the tick asks a worker to check the join",
    StalledKind.RUN_WITHOUT_LIVE_ROW: "the tick asks a worker to check whether the run has ended",
    StalledKind.RUN_OVERDUE: "the tick fails the run",
}


@dataclass(frozen=True, slots=True)
class StalledItem:
    """One piece of stalled work.

    Args:
        why: what was found, in a sentence.
        since: when it stalled; None when that is not known.
    """

    kind: StalledKind
    why: str
    since: datetime | None = None
    run_id: UUID | None = None
    task_run_id: UUID | None = None

    @property
    def remedy(self) -> str:
        return REMEDIES[self.kind]


def find(tx: Transaction, publisher: Publisher, settings: Settings) -> list[StalledItem]:
    """All stalled work, by kind, at most MOST_PER_KIND items of each.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    queries: tuple[Callable[[], Iterator[StalledItem]], ...] = (
        lambda: _tick(tx, settings),
        lambda: _silent_workers(tx),
        lambda: _on_lost_workers(tx),
        lambda: _silent_attempts(tx),
        lambda: _lost_messages(tx, publisher),
        lambda: _overdue_retries(tx),
        lambda: _limits_with_room(tx),
        lambda: _unreleased_joins(tx),
        lambda: _overdue_runs(tx),
    )
    stalled_items = [each for query in queries for each in islice(query(), MOST_PER_KIND)]
    return [*_maintenance(tx), *stalled_items] if stalled_items else []


_MODE = "SELECT mode, mode_changed_at FROM orchestrator_state"


def _maintenance(tx: Transaction) -> Iterator[StalledItem]:
    """Maintenance, as the reason why the tick mends nothing."""
    row = tx.execute(_MODE).one()
    if row.mode == deployment_mode.MAINTENANCE:
        why = "during maintenance the tick leaves everything as it is"
        yield StalledItem(StalledKind.MAINTENANCE, why, row.mode_changed_at)


def _tick(tx: Transaction, settings: Settings) -> Iterator[StalledItem]:
    last = tick_status.find(tx)
    complaint = tick_status.complaint(last, settings, watched_for=timedelta.max)
    if complaint is not None:
        yield StalledItem(StalledKind.TICK_SILENT, complaint.partition(":")[0], last.at)


# --- workers ----------------------------------------------------------------------------------------------

_SILENT_WORKERS = """
SELECT w.id, w.tenant_id, w.service_id, w.heartbeat_at FROM workers AS w
WHERE w.stopped_at IS NULL AND w.heartbeat_at < now() - CAST(:after AS interval)
ORDER BY w.heartbeat_at LIMIT :most
"""


def _silent_workers(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_SILENT_WORKERS, {"after": LOST_AFTER, "most": MOST_PER_KIND}):
        why = f"worker {row.id} of service {row.service_id} ({row.tenant_id}) sends no heartbeat"
        yield StalledItem(StalledKind.WORKER_SILENT, why, row.heartbeat_at)


_ON_LOST_WORKERS = f"""
SELECT t.run_id, t.id, t.step_id, t.worker, coalesce(w.stopped_at, w.heartbeat_at) AS since
FROM task_runs AS t LEFT JOIN LATERAL (
    SELECT w.stopped_at, w.heartbeat_at FROM workers AS w WHERE w.id = {WORKER_OF}) AS w ON true
WHERE t.status = 'running'
  AND (w.heartbeat_at IS NULL OR w.stopped_at IS NOT NULL
       OR w.heartbeat_at < now() - CAST(:after AS interval))
ORDER BY t.run_id, t.id LIMIT :most
"""


def _on_lost_workers(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_ON_LOST_WORKERS, {"after": LOST_AFTER, "most": MOST_PER_KIND}):
        why = f"step {row.step_id} is running on worker {row.worker}, which is lost or stopped"
        yield StalledItem(StalledKind.WORKER_GONE, why, row.since, row.run_id, row.id)


_SILENT_ATTEMPTS = """
SELECT t.run_id, t.id, t.step_id, t.heartbeat_at, k.heartbeat_interval_ms AS interval_ms
FROM task_runs AS t JOIN tasks AS k ON k.tenant_id = t.tenant_id AND k.id = t.task_id
WHERE t.status = 'running'
  AND t.heartbeat_at < now() - k.heartbeat_interval_ms * interval '2 milliseconds' - CAST(:late AS interval)
ORDER BY t.heartbeat_at LIMIT :most
"""


def _silent_attempts(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_SILENT_ATTEMPTS, {"late": LATE, "most": MOST_PER_KIND}):
        why = f"step {row.step_id} should send a heartbeat every {row.interval_ms:,} ms"
        yield StalledItem(StalledKind.ATTEMPT_SILENT, why, row.heartbeat_at, row.run_id, row.id)


# --- task runs that wait without a reason -----------------------------------------------------------------

_LOST = """
SELECT t.run_id, t.id, t.step_id, t.queue, t.queued_at FROM task_runs AS t
WHERE t.status = 'queued' AND t.queue = :queue AND t.priority = :priority AND t.queued_at < :before
ORDER BY t.queued_at LIMIT :most
"""


def _lost_messages(tx: Transaction, publisher: Publisher) -> Iterator[StalledItem]:
    late = tx.now - LATE
    for place in tx.execute(lost_messages.OLDEST, {"late": late}).all():
        try:
            waiting = publisher.oldest(place.queue)
        except Unavailable as error:
            yield StalledItem(StalledKind.BROKER_AWAY, error.detail)
            return
        before = lost_messages.lost_before(late, waiting[level(place.priority)])
        place_of = {"queue": place.queue, "priority": place.priority, "before": before, "most": MOST_PER_KIND}
        for row in tx.execute(_LOST, place_of):
            why = f"step {row.step_id} is queued, but its message is no longer in queue {row.queue}"
            yield StalledItem(StalledKind.MESSAGE_LOST, why, row.queued_at, row.run_id, row.id)


_OVERDUE_RETRIES = """
SELECT t.run_id, t.id, t.step_id, t.attempt, t.due_at FROM task_runs AS t
WHERE t.status = 'pending' AND t.due_at < now() - CAST(:late AS interval) ORDER BY t.due_at LIMIT :most
"""


def _overdue_retries(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_OVERDUE_RETRIES, {"late": LATE, "most": MOST_PER_KIND}):
        why = f"attempt {row.attempt} of step {row.step_id} is due"
        yield StalledItem(StalledKind.RETRY_OVERDUE, why, row.due_at, row.run_id, row.id)


# One row for each task that has ready task runs, with the task run that should start first.
_ROOM = f"""
WITH waiting AS (
    SELECT t.tenant_id, t.task_id, count(*) AS number, min(t.queued_at) AS oldest
    FROM task_runs AS t WHERE t.status = 'ready' AND NOT {IS_RUN_PAUSED} GROUP BY t.tenant_id, t.task_id
)
SELECT w.task_id, w.number, w.oldest, k.concurrency, live.number AS live, f.run_id, f.id
FROM waiting AS w
JOIN tasks AS k ON k.tenant_id = w.tenant_id AND k.id = w.task_id
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM task_runs AS t
    WHERE t.tenant_id = w.tenant_id AND t.task_id = w.task_id AND t.is_limited AND {kind_sql.IS_CALLED}
      AND t.status IN {sql_in(LIVE_TASK)} AND NOT {queue_names.is_parking_sql("t.queue")}) AS live
CROSS JOIN LATERAL (
    SELECT t.run_id, t.id FROM task_runs AS t
    WHERE t.tenant_id = w.tenant_id AND t.task_id = w.task_id AND t.status = 'ready'
      AND NOT {IS_RUN_PAUSED}
    ORDER BY t.priority, t.id LIMIT 1) AS f
WHERE w.oldest < :late AND (k.concurrency = 0 OR live.number < k.concurrency)
  AND (k.rate_at IS NULL OR k.rate_at < :late) AND {deployment_limit.ROOM} IS DISTINCT FROM 0
  AND NOT {is_paused("w.tenant_id", "w.task_id")}
ORDER BY w.oldest LIMIT :most
"""


def _limits_with_room(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_ROOM, {"late": tx.now - LATE, "most": MOST_PER_KIND}):
        room = "has no limit" if row.concurrency == 0 else f"has room for {row.concurrency - row.live:,}"
        why = f"{row.number:,} task runs of task {row.task_id} are ready, and it {room}"
        yield StalledItem(StalledKind.LIMIT_HAS_ROOM, why, row.oldest, row.run_id, row.id)


# --- runs -------------------------------------------------------------------------------------------------


def _unreleased_joins(tx: Transaction) -> Iterator[StalledItem]:
    for join in stalled_runs.unreleased_joins(tx, late=LATE):
        if join.task_run_id is None:
            kind, why = StalledKind.RUN_WITHOUT_LIVE_ROW, "every task run has ended, but the run has not"
        else:
            kind, why = (
                StalledKind.JOIN_CLOSED,
                f"every predecessor of step {join.step_id} has ended, but the step has not started",
            )
        yield StalledItem(kind, why, join.since, join.run_id, join.task_run_id)


_OVERDUE_RUNS = """
SELECT r.id, r.deadline_at FROM runs AS r
WHERE r.finished_at IS NULL AND r.status <> 'paused' AND r.deadline_at < now() - CAST(:late AS interval)
ORDER BY r.deadline_at LIMIT :most
"""


def _overdue_runs(tx: Transaction) -> Iterator[StalledItem]:
    for row in tx.execute(_OVERDUE_RUNS, {"late": LATE, "most": MOST_PER_KIND}):
        yield StalledItem(
            StalledKind.RUN_OVERDUE,
            "the run has exceeded its time limit, but has not ended",
            row.deadline_at,
            row.id,
        )
