"""Keeps the limits of tasks across all workers: task runs at once, starts in a time, none while paused.

A slot of a concurrency limit is a live row (queued, running or waiting), never a counter that could leak.
What waits in a parking queue for a worker that has its task holds no slot (placement.py). A rate limit is
stored as the time at which the next start is on time (domain/gcra.py). A transaction that changes the number
of live rows of a limited task calls `fill` at its end: `fill` locks the task's row, and tasks come last in
the lock order (store/lock_order.py). The tick fills the limits that time alone frees. While the deployment
has a limit (deployment_limit.py), `fill` lets all tasks have what is free, in turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain import gcra, kind_sql, queue_names
from pipeweave.orchestrator.domain.outbox import Released
from pipeweave.orchestrator.domain.states import LIVE_TASK, TaskStatus, sql_in
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.queueing import deployment_limit, widths
from pipeweave.orchestrator.state import pause_sql, releasing
from pipeweave.orchestrator.state.task_transitions import status_is
from pipeweave.orchestrator.state.turn_sql import turn
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.orchestrator.store.isolation import Isolation
from pipeweave.rates import Rate

# Task runs that one `fill` releases at most, of a task whose limit was lifted or whose pause ended.
BATCH = 1_000
# Tasks whose limits one tick fills at most; the next tick continues.
TASKS_PER_TICK = 100
# SQL: the task runs of the task `k` that hold a slot.
LIVE = f"""FROM task_runs AS t WHERE t.tenant_id = k.tenant_id AND t.task_id = k.id AND t.is_limited
    AND {kind_sql.IS_CALLED} AND t.status IN {sql_in(LIVE_TASK)}
    AND NOT {queue_names.is_parking_sql("t.queue")}"""
# SQL: the task runs that hold a slot and that no worker has claimed.
_UNSTARTED = f"{LIVE} AND {status_is(TaskStatus.QUEUED)}"
_LOCK = "SELECT 1 FROM tasks WHERE tenant_id = :tenant AND id = :task FOR NO KEY UPDATE"
# A separate statement after the lock, so that it sees the commit of the lock's last holder. It reads the
# database's clock at that moment, because this transaction may have begun long before.
_LIMITS = f"""
SELECT k.concurrency, k.rate_limit, k.rate_seconds, k.rate_at, k.usual_seconds, clock_timestamp() AS now,
    {pause_sql.is_paused("k.tenant_id", "k.id")} AS is_paused,
    EXISTS (SELECT 1 FROM run_pauses) AS is_any_run_paused, {deployment_limit.ROOM} AS deployment_room,
    CASE WHEN k.concurrency > 0 THEN (SELECT count(*) {LIVE}) ELSE 0 END AS live,
    CASE WHEN k.rate_limit IS NOT NULL THEN (SELECT count(*) {_UNSTARTED}) ELSE 0 END AS unstarted
FROM tasks AS k WHERE k.tenant_id = :tenant AND k.id = :task
"""


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """The limits of a task, and how much of them is used.

    Args:
        concurrency: task runs at once; 0 for no limit.
        live: task runs that hold a slot; 0 without a limit.
        rate: starts in a time; None for no limit.
        rate_at: the stored time at which the next start is on time.
        on_time: the same time, corrected for the present queue and clock.
        is_paused: whether the task or its tenant is paused.
        is_any_run_paused: whether a run is paused, of whatever task and tenant.
        seconds: the usual duration of a task run (s); None while it is unknown.
        now: the database's clock.
        deployment_room: how many more task runs of all tasks may start; None without a limit of all.
    """

    concurrency: int
    live: int
    rate: Rate | None
    rate_at: datetime | None
    on_time: datetime
    is_paused: bool
    is_any_run_paused: bool
    seconds: float | None
    now: datetime
    deployment_room: int | None = None

    @property
    def free(self) -> int | None:
        """The number of free slots; None without a concurrency limit."""
        return max(0, self.concurrency - self.live) if self.concurrency > 0 else None

    @property
    def rate_room(self) -> int | None:
        """The number of starts that the rate allows now; None without a rate limit."""
        return None if self.rate is None else gcra.room(self.rate, self.on_time, self.now)

    @property
    def room(self) -> int:
        """The number of task runs that may be released now, at most BATCH."""
        if self.is_paused:
            return 0
        rooms = (BATCH, self.free, self.rate_room, self.deployment_room)
        return min(each for each in rooms if each is not None)


def limits_of(tx: Transaction, tenant: str, task: str) -> TaskLimits:
    """The limits of a registered task as they are now."""
    row: Any = tx.execute(_LIMITS, {"tenant": tenant, "task": task}).one()
    rate = None if row.rate_limit is None else Rate(row.rate_limit, row.rate_seconds)
    on_time = row.now if rate is None else gcra.on_time(rate, row.rate_at, row.now, row.unstarted)
    return TaskLimits(
        row.concurrency,
        row.live,
        rate,
        row.rate_at,
        on_time,
        row.is_paused,
        row.is_any_run_paused,
        row.usual_seconds,
        row.now,
        row.deployment_room,
    )


# SQL: the task runs that wait for the limits of a task. The index has them in the order of their release.
_READY = """FROM task_runs AS t WHERE t.tenant_id = :tenant AND t.task_id = :task AND t.status = 'ready'"""

_POSITION = f"""
SELECT count(*) FROM (
    SELECT 1 {_READY} AND NOT {pause_sql.IS_RUN_PAUSED}
        AND (t.priority, t.id) < (:priority, CAST(:id AS uuid)) LIMIT :most) AS before
"""


def position(tx: Transaction, tenant: str, task: str, priority: int, id: UUID, most: int) -> int:
    """The place in line, from 1, of a task run with this priority and id; counting ends at `most`."""
    parameters = {"tenant": tenant, "task": task, "priority": priority, "id": id, "most": most - 1}
    return 1 + int(tx.execute(_POSITION, parameters).scalar_one())


_NEXT = f"""
SELECT t.run_id, t.id {_READY} AND NOT {pause_sql.IS_RUN_PAUSED}
ORDER BY t.priority, t.id LIMIT :room FOR UPDATE SKIP LOCKED
"""

# The ids of task runs begin with that of their run: this one follows all of a run.
_LAST_OF_RUN = "CAST(left(CAST(a.run_id AS text), 30) || 'ffffff' AS uuid)"


def _line(tenant: str, task: str) -> str:
    """SQL: the body of the recursive query `line`, which steps through what waits for the limits of a task.

    Of a paused run, one row comes instead of all: what waits behind a paused run costs one step, however many
    task runs of it wait. For statements that find a run paused; the others read the index as it lies.
    """
    ready = f"""SELECT t.priority, t.run_id, t.id, {pause_sql.IS_RUN_PAUSED} AS is_paused FROM task_runs AS t
        WHERE t.tenant_id = {tenant} AND t.task_id = {task} AND t.status = 'ready'"""
    return f"""({ready} ORDER BY t.priority, t.id LIMIT 1)
    UNION ALL
    SELECT n.* FROM line AS a CROSS JOIN LATERAL (
        {ready} AND (t.priority, t.id) > (a.priority, CASE WHEN a.is_paused THEN {_LAST_OF_RUN} ELSE a.id END)
        ORDER BY t.priority, t.id LIMIT 1) AS n"""


_NEXT_BEHIND_PAUSED = f"""
WITH RECURSIVE line AS (
    {_line(":tenant", ":task")}
)
SELECT n.run_id, n.id FROM line AS a CROSS JOIN LATERAL (
    SELECT t.run_id, t.id FROM task_runs AS t
    WHERE t.run_id = a.run_id AND t.id = a.id AND t.status = 'ready' FOR UPDATE SKIP LOCKED) AS n
WHERE NOT a.is_paused LIMIT :room
"""

_NOTE_RATE = "UPDATE tasks SET rate_at = :at WHERE tenant_id = :tenant AND id = :task"


def fill(tx: Transaction, tenant: str, tasks: Iterable[str]) -> int:
    """Release ready task runs of these tasks while their limits have room, best priority first, then oldest.
    While the deployment has a limit, those of any task.

    Returns:
        How many were released.
    """
    count = 0
    for task in sorted(set(tasks)):
        limits = _lock(tx, tenant, task)
        if limits.deployment_room is not None:
            return count + _fill_in_turns(tx, limits.deployment_room)
        count += _release(tx, tenant, task, limits, limits.room)
    return count


def _lock(tx: Transaction, tenant: str, task: str) -> TaskLimits:
    tx.execute(_LOCK, {"tenant": tenant, "task": task}, lock=deployment_limit.LOCK)
    return limits_of(tx, tenant, task)


def _release(tx: Transaction, tenant: str, task: str, limits: TaskLimits, room: int) -> int:
    key = {"tenant": tenant, "task": task}
    released: list[TaskRun] = []
    if room:
        following = _NEXT_BEHIND_PAUSED if limits.is_any_run_paused else _NEXT
        rows = tx.execute(following, {**key, "room": room})
        released = releasing.dispatch_ready(tx, [(row.run_id, row.id) for row in rows])
        tx.send(*widths.together(tx, tenant, [_released(each, limits.seconds) for each in released]))
    _note_rate(tx, key, limits, len(released))
    return len(released)


def _note_rate(tx: Transaction, key: dict[str, str], limits: TaskLimits, starts: int) -> None:
    if limits.rate is None:
        return
    on_time = gcra.after(limits.rate, limits.on_time, starts)
    # Task runs that wait for a worker keep `on_time` ahead of the clock. An idle task needs no UPDATE.
    if on_time > max(limits.now, limits.rate_at or limits.now):
        tx.execute(_NOTE_RATE, {**key, "at": on_time})


def _released(task_run: TaskRun, seconds: float | None) -> Released:
    """The message of one released task run; the messages of its step were sent before it had a slot."""
    return Released(
        task_run.run_id,
        task_run.ordinal,
        task_run.attempt,
        task_run.task_id,
        task_run.queue,
        task_run.priority,
        is_limited=task_run.is_limited,
        seconds=seconds,
    )


# --- the tick ---------------------------------------------------------------------------------------------

# SQL: whether one of the ready task runs of the task `k` is of a run that is not paused.
_HAS_UNPAUSED = f"""(NOT EXISTS (SELECT 1 FROM run_pauses) OR EXISTS (
    WITH RECURSIVE line AS (
    {_line("k.tenant_id", "k.id")}
    ) SELECT 1 FROM line AS a WHERE NOT a.is_paused))"""

# Tasks with ready task runs: one index look-up for each task, however many task runs wait. Tasks without room
# are left out here, because they would take the places of other tasks in every batch.
_TASKS_WITH_ROOM = f"""
WITH RECURSIVE waiting AS (
    (SELECT t.tenant_id, t.task_id FROM task_runs AS t WHERE t.status = 'ready'
     ORDER BY t.tenant_id, t.task_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.task_id FROM waiting AS w CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.task_id FROM task_runs AS t
        WHERE t.status = 'ready' AND (t.tenant_id, t.task_id) > (w.tenant_id, w.task_id)
        ORDER BY t.tenant_id, t.task_id LIMIT 1) AS n
), with_room AS (
    SELECT k.tenant_id, k.id
    FROM waiting AS w JOIN tasks AS k ON k.tenant_id = w.tenant_id AND k.id = w.task_id
    WHERE NOT {pause_sql.is_paused("k.tenant_id", "k.id")} AND {_HAS_UNPAUSED}
      AND (k.concurrency = 0 OR k.concurrency > (SELECT count(*) {LIVE}))
      AND (k.rate_at IS NULL OR k.rate_limit IS NULL
           OR k.rate_at <= now() + k.rate_seconds * (1 - 1.0 / k.rate_limit) * interval '1 second')"""
_WITH_ROOM = f"""{_TASKS_WITH_ROOM}
    UNION
    SELECT k.tenant_id, k.id FROM tasks AS k CROSS JOIN LATERAL (SELECT 1 {_UNSTARTED} LIMIT 1) AS u
    WHERE k.rate_limit IS NOT NULL
)
SELECT r.tenant_id, r.id FROM (
    SELECT w.tenant_id, w.id, {turn("w.tenant_id", "w.id")} AS turn
    FROM with_room AS w) AS r
ORDER BY r.turn, r.tenant_id LIMIT :most
"""

# What may start next of all tasks with room, when only so much is free in the deployment. The next place goes
# to the tenant that has the fewest at work, for its weight.
_IN_TURNS = f"""{_TASKS_WITH_ROOM}
), working AS ({deployment_limit.BY_TENANT})
SELECT c.tenant_id, c.task_id, count(*) AS number FROM (
    SELECT o.tenant_id, o.task_id FROM (
        SELECT w.tenant_id, w.id AS task_id, n.priority, n.id,
            row_number() OVER (PARTITION BY w.tenant_id ORDER BY n.priority, n.id) AS place
        FROM with_room AS w CROSS JOIN LATERAL (
            SELECT t.priority, t.id FROM task_runs AS t
            WHERE t.tenant_id = w.tenant_id AND t.task_id = w.id AND t.status = 'ready'
              AND NOT {pause_sql.IS_RUN_PAUSED}
            ORDER BY t.priority, t.id LIMIT CAST(:room AS integer)) AS n) AS o
    JOIN tenants AS v ON v.id = o.tenant_id LEFT JOIN working AS u ON u.tenant_id = o.tenant_id
    ORDER BY (o.place + coalesce(u.number, 0)) / CAST(v.weight AS double precision), o.priority, o.id
    LIMIT CAST(:room AS integer)) AS c
GROUP BY c.tenant_id, c.task_id ORDER BY c.tenant_id, c.task_id
"""


def _fill_in_turns(tx: Transaction, room: int) -> int:
    """Give what is free in the deployment to the tasks of all tenants: these take turns, and of one tenant
    the best priority goes first, then the oldest. The row of the deployment is locked.
    """
    if not room:
        return 0
    rows: list[Any] = list(tx.execute(_IN_TURNS, {"room": min(room, BATCH)}))
    count = 0
    for row in rows:
        limits = _lock(tx, row.tenant_id, row.task_id)
        count += _release(tx, row.tenant_id, row.task_id, limits, min(limits.room, row.number))
    return count


# SQL: whether `fill_waiting` may have anything to do.
IS_DUE = f"""(EXISTS (SELECT 1 FROM task_runs AS t WHERE t.status = 'ready')
    OR EXISTS (SELECT 1 FROM tasks AS k CROSS JOIN LATERAL (SELECT 1 {_UNSTARTED} LIMIT 1) AS u
        WHERE k.rate_limit IS NOT NULL))"""


def fill_waiting(database: Database) -> int:
    """Fill the limits that have room because time has passed, the limit was raised, or a process died before
    it filled a slot that it had freed. The tenants take turns.

    Returns:
        How many task runs were released.

    Raises:
        PartlyFailed: the limits of some tasks could not be filled; those of the other tasks were.
        Unavailable: PostgreSQL cannot be reached.
    """
    with database.statements() as tx:
        rows: list[Any] = list(tx.execute(_WITH_ROOM, {"most": TASKS_PER_TICK}))
    isolation = Isolation(database)
    filled = sum(
        isolation.run(
            lambda row=row: database.run(lambda tx: fill(tx, row.tenant_id, [row.id])),  # type: ignore[misc]
            tenant=row.tenant_id,
            task_id=row.id,
        )
        for row in rows
    )
    return isolation.finish(filled)
