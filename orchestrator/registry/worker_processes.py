"""Keeps the rows of worker processes: start, heartbeat, stop, and loss of a worker without heartbeats.

Only PostgreSQL's clock is used, so that a host whose clock differs does not look dead.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from pipeweave.labels import Labels
from pipeweave.orchestrator.registry import loaded_tasks
from pipeweave.orchestrator.registry.loaded_tasks import LoadedTask
from pipeweave.orchestrator.store.database import Database, Transaction, to_json

# A worker sends a heartbeat every BEAT_EVERY. It is lost when it was silent for LOST_AFTER; with a tick each
# second, its loss is found within 5 seconds.
BEAT_EVERY = timedelta(seconds=1)
LOST_AFTER = timedelta(seconds=3.5)
# A worker is lost only if two ticks, CONFIRM_AFTER apart, both found it silent, the first for SUSPECT_AFTER:
# after PostgreSQL or the tick were away every worker looks silent, and needs this time to send a heartbeat.
SUSPECT_AFTER = timedelta(seconds=1.5)
CONFIRM_AFTER = timedelta(seconds=1.5)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The data of a worker process that starts.

    Args:
        name: the Celery node name, `name@host`.
        concurrency: attempts that the worker runs at a time.
        task_count: how many tasks the worker has loaded.
        pid: process id; by default that of this process.
        loaded: the tasks that the worker has.
        queues: full names of the queues that it consumes.
        own_queue: the one of them that only workers with the same code consume.
        version: of the code that it has loaded.
        labels: of its machine.
    """

    service_id: str
    name: str
    hostname: str
    concurrency: int
    task_count: int
    pid: int | None = None
    loaded: tuple[LoadedTask, ...] = ()
    queues: tuple[str, ...] = ()
    own_queue: str | None = None
    version: str | None = None
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """What a worker process says of its load with a heartbeat.

    Args:
        busy: children that have a message under way.
        since_fetch: how long ago a child last got a message; None: none did.
        rss_bytes: memory of its processes together; None where it cannot be measured.
        cpu_percent: of one processor, by its processes together, since the last measurement.
        starts_last_hour: calls that its children began in the last hour.
        memory_replacements: children that were replaced because of their memory, since it started.
    """

    busy: int
    since_fetch: timedelta | None
    rss_bytes: int | None
    cpu_percent: float | None
    starts_last_hour: int
    memory_replacements: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to a heartbeat that was stored.

    Args:
        drains: the worker is to take nothing more until it is resumed.
        also: whether the condition holds that was asked beside it.
    """

    drains: bool
    also: bool = False


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that was marked as lost."""

    id: str
    tenant: str
    service_id: str


_INSERT = """
INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count, queues,
                     own_queue, version, labels, started_at, heartbeat_at)
VALUES (:id, :tenant, :service_id, :name, :hostname, :pid, :concurrency, :task_count,
        CAST(:queues AS text[]), :own_queue, :version, CAST(:labels AS jsonb),
        coalesce(CAST(:now AS timestamptz), now()), coalesce(CAST(:now AS timestamptz), now()))
"""

_ACTIVE = """
UPDATE services SET status = 'active', last_heartbeat = coalesce(CAST(:now AS timestamptz), now())
WHERE tenant_id = :tenant AND id = :service_id
"""

_OR_REVIVE = """
ON CONFLICT (id) DO UPDATE SET stopped_at = NULL, lost_at = NULL, heartbeat_at = EXCLUDED.heartbeat_at
"""


def child_of(worker_id: str, pid: int) -> str:
    """The name under which a child process of a worker claims task runs."""
    return f"{worker_id}#{pid}"


def sessions_of(child: str) -> str:
    """The name of the database sessions of a child process, which no other process ever has.

    Args:
        child: the name under which it claims.
    """
    # What comes before it is for people, and may be too long: the last part is unique.
    return f"pipeweave {child.rpartition(':')[2]}"


# SQL: the worker id of a task run that a child claimed (see `child_of`). A worker id ends in hexadecimal
# digits, so only the child's suffix matches.
WORKER_OF = "regexp_replace(t.worker, '#[0-9]+$', '')"


def register(
    tx: Transaction,
    tenant: str,
    start: WorkerStart,
    *,
    worker_id: str | None = None,
    now: datetime | None = None,
) -> str:
    """Store that a worker started, with the tasks that it has, and set its service active. Returns the worker
    id.

    Args:
        worker_id: the id of a worker that was marked as lost by mistake: it continues under its id, because
            its children claim task runs with that id. By default a new id is made.
    """
    pid = os.getpid() if start.pid is None else start.pid
    worker_id = worker_id or f"{start.name}:{pid}:{secrets.token_hex(4)}"
    parameters = {
        "id": worker_id,
        "tenant": tenant,
        "service_id": start.service_id,
        "name": start.name,
        "hostname": start.hostname,
        "pid": pid,
        "concurrency": start.concurrency,
        "task_count": start.task_count,
        "queues": list(start.queues),
        "own_queue": start.own_queue,
        "version": start.version,
        "labels": to_json(dict(start.labels)),
        "now": now,
    }
    tx.execute(_INSERT + _OR_REVIVE, parameters)
    loaded_tasks.store(tx, tenant, worker_id, start.loaded)
    tx.execute(_ACTIVE, parameters)
    return worker_id


# One statement, whatever a worker has to say and to hear: it comes once a second from each of them.
# Its commit does not wait for the disk or a standby: the next heartbeat comes before anybody misses one that
# a crash of PostgreSQL took.
_BEAT = """
UPDATE workers AS w SET heartbeat_at = coalesce(CAST(:now AS timestamptz), now()),
    stopping_at = CASE WHEN CAST(:stops AS boolean) OR drain_requested_at IS NOT NULL
        THEN coalesce(stopping_at, now()) END,
    busy = coalesce(CAST(:busy AS integer), busy),
    last_fetch_at = coalesce(now() - CAST(:since_fetch AS interval), last_fetch_at),
    rss_bytes = coalesce(CAST(:rss_bytes AS bigint), rss_bytes),
    cpu_percent = coalesce(CAST(:cpu_percent AS real), cpu_percent),
    starts_last_hour = coalesce(CAST(:starts_last_hour AS integer), starts_last_hour),
    memory_replacements = coalesce(CAST(:memory_replacements AS integer), memory_replacements)
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS soon
WHERE id = :id AND stopped_at IS NULL
RETURNING drain_requested_at IS NOT NULL AS drains, {also} AS also
"""
_NO_LOAD: dict[str, Any] = dict.fromkeys(each.name for each in fields(WorkerLoad))


def beat(
    tx: Transaction,
    worker_id: str,
    *,
    stops: bool = False,
    load: WorkerLoad | None = None,
    also: str = "false",
    now: datetime | None = None,
) -> Heard | None:
    """Store a worker's heartbeat. None: the worker is marked as lost or stopped and must register again.

    Args:
        stops: the worker was asked to stop: it takes nothing more.
        load: None leaves what was stored.
        also: SQL: a condition on the worker `w` that is looked at by the same statement.
    """
    said = _NO_LOAD if load is None else {name: getattr(load, name) for name in _NO_LOAD}
    parameters = {"id": worker_id, "stops": stops, "now": now, **said}
    row = tx.execute(_BEAT.format(also=also), parameters).one_or_none()
    return None if row is None else Heard(row.drains, row.also)


_STOP = """
UPDATE workers SET stopped_at = coalesce(CAST(:now AS timestamptz), now())
WHERE id = :id AND stopped_at IS NULL
RETURNING tenant_id, service_id
"""


def stop(tx: Transaction, worker_id: str, *, now: datetime | None = None) -> None:
    """Store that a worker shut down in order; without workers a Python service becomes `inactive`."""
    row = tx.execute(_STOP, {"id": worker_id, "now": now}).one_or_none()
    if row is not None:
        _end_service(tx, row.tenant_id, row.service_id, "inactive")


_NOW = "coalesce(CAST(:now AS timestamptz), now())"

# SQL: whether `mark_lost` has anything to do.
IS_SILENT = f"""EXISTS (SELECT 1 FROM workers AS w WHERE w.stopped_at IS NULL
    AND w.heartbeat_at < now() - interval '{SUSPECT_AFTER.total_seconds()} seconds')"""

_SUSPECT = f"""
UPDATE workers SET suspected_at = {_NOW}
WHERE id IN (SELECT id FROM workers WHERE stopped_at IS NULL
             AND heartbeat_at < {_NOW} - CAST(:suspect AS interval)
             AND (suspected_at IS NULL OR suspected_at < heartbeat_at) FOR UPDATE SKIP LOCKED)
"""

# The end of its last worker changes a service. A worker whose row or service is locked is left to the next
# tick, and delays no other one. A dispatcher has no service.
_MARK_LOST = f"""
UPDATE workers SET stopped_at = {_NOW}, lost_at = {_NOW}
WHERE id IN (SELECT w.id FROM workers AS w
                 JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
             WHERE w.stopped_at IS NULL AND w.heartbeat_at < {_NOW} - CAST(:after AS interval)
             AND w.suspected_at > w.heartbeat_at AND w.suspected_at <= {_NOW} - CAST(:confirm AS interval)
             FOR UPDATE OF w SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED)
   OR id IN (SELECT w.id FROM workers AS w
             WHERE w.stopped_at IS NULL AND w.heartbeat_at < {_NOW} - CAST(:after AS interval)
             AND w.suspected_at > w.heartbeat_at AND w.suspected_at <= {_NOW} - CAST(:confirm AS interval)
             AND NOT EXISTS (SELECT 1 FROM services AS s
                 WHERE s.tenant_id = w.tenant_id AND s.id = w.service_id)
             FOR UPDATE OF w SKIP LOCKED)
RETURNING id, tenant_id, service_id
"""


def mark_lost(tx: Transaction, *, now: datetime | None = None) -> list[LostWorker]:
    """Mark workers as lost that were silent for LOST_AFTER and were suspected by an earlier call.

    A Python service that lost its last worker becomes `disconnected`: its tasks may move to another service.
    """
    tx.execute(_SUSPECT, {"now": now, "suspect": SUSPECT_AFTER})
    rows = tx.execute(_MARK_LOST, {"now": now, "after": LOST_AFTER, "confirm": CONFIRM_AFTER})
    lost = [LostWorker(row.id, row.tenant_id, row.service_id) for row in rows]
    for tenant, service_id in sorted({(each.tenant, each.service_id) for each in lost}):
        _end_service(tx, tenant, service_id, "disconnected")
    return lost


# If the last two workers end at the same time, the second to get this lock sees that both have ended.
_LOCK_SERVICE = "SELECT 1 FROM services WHERE tenant_id = :tenant AND id = :service_id FOR NO KEY UPDATE"

_END_SERVICE = """
UPDATE services AS s SET status = :status
WHERE s.tenant_id = :tenant AND s.id = :service_id AND s.kind = 'python'
  AND NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id
                  AND w.stopped_at IS NULL)
"""


def _end_service(tx: Transaction, tenant: str, service_id: str, status: str) -> None:
    """Set the status of a Python service that has no worker left."""
    parameters = {"tenant": tenant, "service_id": service_id, "status": status}
    tx.execute(_LOCK_SERVICE, parameters)
    tx.execute(_END_SERVICE, parameters)


def serves_sql(queue: str) -> str:
    """SQL: whether the worker `w` of the service `s` consumes this queue (SQL of its full name).

    A dispatcher has no service: `s` is joined by LEFT JOIN.
    """
    # A worker of an older version names no queues: it consumes that of its service.
    return f"({queue} = ANY(w.queues) OR (w.queues = '{{}}' AND s.queue = {queue}))"


_IS_ALIVE = f"w.stopped_at IS NULL AND w.heartbeat_at >= {_NOW} - CAST(:after AS interval)"
_ALIVE = f"SELECT count(*) FROM workers AS w WHERE {_IS_ALIVE}"

_ALIVE_OF_QUEUE = f"""
SELECT count(*), coalesce(sum(w.concurrency), 0) FROM workers AS w
    LEFT JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
WHERE {serves_sql(":queue")} AND {_IS_ALIVE}
"""


def count_alive(tx: Transaction, *, now: datetime | None = None) -> int:
    """How many worker processes are alive."""
    return int(tx.execute(_ALIVE, {"now": now, "after": LOST_AFTER}).scalar_one())


def alive_of_queue(tx: Transaction, queue: str) -> tuple[int, int]:
    """How many live worker processes serve a queue, and how many task runs they can run at once."""
    row = tx.execute(_ALIVE_OF_QUEUE, {"queue": queue, "now": None, "after": LOST_AFTER}).one()
    return int(row[0]), int(row[1])


_SILENT_OF_QUEUE = f"""
SELECT EXISTS (SELECT 1 FROM workers AS w
    JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
    WHERE w.queues = '{{}}' AND s.queue = :queue AND {_IS_ALIVE})
"""


def has_silent(tx: Transaction, queue: str) -> bool:
    """Whether a live worker consumes a service's queue that does not say what it has loaded (an older
    version).
    """
    parameters = {"queue": queue, "now": None, "after": LOST_AFTER}
    return tx.execute(_SILENT_OF_QUEUE, parameters).scalar_one() is True


_ALIVE_PROCESS = f"""
SELECT EXISTS (SELECT 1 FROM workers AS w WHERE w.pid = :pid AND w.hostname = :hostname AND {_IS_ALIVE})
"""


def is_alive_at(database_url: str, pid: int) -> bool:
    """Whether this process of this host is registered as a worker and alive; opens its own connection."""
    parameters = {"pid": pid, "hostname": socket.gethostname(), "now": None, "after": LOST_AFTER}
    with Database(database_url, pool_size=0).transaction() as tx:
        return tx.execute(_ALIVE_PROCESS, parameters).scalar_one() is True


def count_alive_at(database_url: str) -> int:
    """How many worker processes of this database are alive; opens its own connection."""
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        return count_alive(tx)
