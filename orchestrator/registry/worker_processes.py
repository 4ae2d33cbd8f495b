"""Worker processes: each says that it lives, and is missed when it stops saying so.

Liveness is judged by the database's clock alone, so that hosts whose clocks differ are not taken for dead.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.orchestrator.store.database import Database, Transaction

# A worker that was silent for this long is lost: with a tick each second, that is found within 5 seconds.
BEAT_EVERY = timedelta(seconds=1)
LOST_AFTER = timedelta(seconds=3.5)
# And only when two looks, this far apart, both found it silent: after PostgreSQL or the tick were away, every
# worker looks silent at first, and has this long to say that it is not.
SUSPECT_AFTER = timedelta(seconds=1.5)
CONFIRM_AFTER = timedelta(seconds=1.5)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A worker process that starts.

    Args:
        name: its Celery node name, `name@host`.
        concurrency: attempts it runs at a time.
        task_count: tasks it has loaded.
        pid: this process by default.
    """

    service_id: str
    name: str
    hostname: str
    concurrency: int
    task_count: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that was silent for too long."""

    id: str
    tenant: str
    service_id: str


_INSERT = """
INSERT INTO workers (id, tenant_id, service_id, name, hostname, pid, concurrency, task_count, started_at,
                     heartbeat_at)
VALUES (:id, :tenant, :service_id, :name, :hostname, :pid, :concurrency, :task_count,
        coalesce(CAST(:now AS timestamptz), now()), coalesce(CAST(:now AS timestamptz), now()))
"""

_ACTIVE = """
UPDATE services SET status = 'active', last_heartbeat = coalesce(CAST(:now AS timestamptz), now())
WHERE tenant_id = :tenant AND id = :service_id
"""

_AGAIN = """
ON CONFLICT (id) DO UPDATE SET stopped_at = NULL, heartbeat_at = EXCLUDED.heartbeat_at
"""


def child_of(worker_id: str, pid: int) -> str:
    """What a child process of a worker claims task runs as."""
    return f"{worker_id}#{pid}"


# SQL: the worker of what a child claimed. Ids end in hexadecimal digits, so that the mark is unmistakable.
WORKER_OF = "regexp_replace(t.worker, '#[0-9]+$', '')"


def register(
    tx: Transaction,
    tenant: str,
    start: WorkerStart,
    *,
    worker_id: str | None = None,
    now: datetime | None = None,
) -> str:
    """Note that a worker started; its service is active. Returns the id that its beats and claims carry.

    One that was taken for lost, and was not, comes back under its own `worker_id`: its children claim with
    it.
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
        "now": now,
    }
    tx.execute(_INSERT + _AGAIN, parameters)
    tx.execute(_ACTIVE, parameters)
    return worker_id


_BEAT = """
UPDATE workers SET heartbeat_at = coalesce(CAST(:now AS timestamptz), now())
WHERE id = :id AND stopped_at IS NULL
"""


def beat(tx: Transaction, worker_id: str, *, now: datetime | None = None) -> bool:
    """Say that a worker lives, every BEAT_EVERY. False: it was taken for lost and must register anew."""
    return tx.execute(_BEAT, {"id": worker_id, "now": now}).rowcount > 0


_STOP = """
UPDATE workers SET stopped_at = coalesce(CAST(:now AS timestamptz), now())
WHERE id = :id AND stopped_at IS NULL
RETURNING tenant_id, service_id
"""


def stop(tx: Transaction, worker_id: str, *, now: datetime | None = None) -> None:
    """Note that a worker ended as it should; with its last worker, a Python service becomes `inactive`."""
    row = tx.execute(_STOP, {"id": worker_id, "now": now}).one_or_none()
    if row is not None:
        _leave(tx, row.tenant_id, row.service_id, "inactive")


_NOW = "coalesce(CAST(:now AS timestamptz), now())"

_SUSPECT = f"""
UPDATE workers SET suspected_at = {_NOW}
WHERE stopped_at IS NULL AND heartbeat_at < {_NOW} - CAST(:suspect AS interval)
  AND (suspected_at IS NULL OR suspected_at < heartbeat_at)
"""

_LOSE = f"""
UPDATE workers SET stopped_at = {_NOW}
WHERE id IN (SELECT id FROM workers WHERE stopped_at IS NULL
             AND heartbeat_at < {_NOW} - CAST(:after AS interval)
             AND suspected_at > heartbeat_at AND suspected_at <= {_NOW} - CAST(:confirm AS interval)
             FOR UPDATE SKIP LOCKED)
RETURNING id, tenant_id, service_id
"""


def reap(tx: Transaction, *, now: datetime | None = None) -> list[LostWorker]:
    """Take note of workers that were silent for LOST_AFTER, as this look and one before found.

    A Python service that lost its last worker becomes `disconnected`: its tasks may move to another service.
    """
    tx.execute(_SUSPECT, {"now": now, "suspect": SUSPECT_AFTER})
    rows = tx.execute(_LOSE, {"now": now, "after": LOST_AFTER, "confirm": CONFIRM_AFTER})
    lost = [LostWorker(row.id, row.tenant_id, row.service_id) for row in rows]
    for tenant, service_id in sorted({(each.tenant, each.service_id) for each in lost}):
        _leave(tx, tenant, service_id, "disconnected")
    return lost


# Of two workers that end at once, the one that gets this lock last sees both gone.
_LOCK_SERVICE = "SELECT 1 FROM services WHERE tenant_id = :tenant AND id = :service_id FOR NO KEY UPDATE"

_LEAVE = """
UPDATE services AS s SET status = :status
WHERE s.tenant_id = :tenant AND s.id = :service_id AND s.kind = 'python'
  AND NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.tenant_id = s.tenant_id AND w.service_id = s.id
                  AND w.stopped_at IS NULL)
"""


def _leave(tx: Transaction, tenant: str, service_id: str, status: str) -> None:
    """The service is not active any more, if this was its last worker."""
    parameters = {"tenant": tenant, "service_id": service_id, "status": status}
    tx.execute(_LOCK_SERVICE, parameters)
    tx.execute(_LEAVE, parameters)


_IS_ALIVE = f"w.stopped_at IS NULL AND w.heartbeat_at >= {_NOW} - CAST(:after AS interval)"
_ALIVE = f"SELECT count(*) FROM workers AS w WHERE {_IS_ALIVE}"

_ALIVE_OF_QUEUE = f"""
SELECT count(*), coalesce(sum(w.concurrency), 0) FROM workers AS w
    JOIN services AS s ON s.tenant_id = w.tenant_id AND s.id = w.service_id
WHERE s.queue = :queue AND {_IS_ALIVE}
"""


def count_alive(tx: Transaction, *, now: datetime | None = None) -> int:
    """How many worker processes live."""
    return int(tx.execute(_ALIVE, {"now": now, "after": LOST_AFTER}).scalar_one())


def alive_of_queue(tx: Transaction, queue: str) -> tuple[int, int]:
    """How many worker processes that serve a queue live, and how many task runs they take at once."""
    row = tx.execute(_ALIVE_OF_QUEUE, {"queue": queue, "now": None, "after": LOST_AFTER}).one()
    return int(row[0]), int(row[1])


def alive(database_url: str) -> int:
    """How many worker processes of this database live, over a connection of its own."""
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        return count_alive(tx)
