"""Worker processes: each says that it lives, and is missed when it stops saying so.

Liveness is judged by the database's clock alone, so that hosts whose clocks differ are not taken for dead.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.orchestrator.database import Database, Transaction

# A worker that was silent for four beats is lost: with a tick each second, that is found within 5 seconds.
BEAT_EVERY = timedelta(seconds=1)
LOST_AFTER = timedelta(seconds=4)


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


def register(tx: Transaction, tenant: str, start: WorkerStart, *, now: datetime | None = None) -> str:
    """Note that a worker started; its service is active. Returns the id that its beats and claims carry."""
    pid = os.getpid() if start.pid is None else start.pid
    worker_id = f"{start.name}:{pid}:{secrets.token_hex(4)}"
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
    tx.execute(_INSERT, parameters)
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


_LOSE = """
UPDATE workers SET stopped_at = coalesce(CAST(:now AS timestamptz), now())
WHERE id IN (SELECT id FROM workers WHERE stopped_at IS NULL
             AND heartbeat_at < coalesce(CAST(:now AS timestamptz), now()) - CAST(:after AS interval)
             FOR UPDATE SKIP LOCKED)
RETURNING id, tenant_id, service_id
"""


def reap(tx: Transaction, *, now: datetime | None = None) -> list[LostWorker]:
    """Take note of workers that were silent for LOST_AFTER.

    A Python service that lost its last worker becomes `disconnected`: its tasks may move to another service.
    """
    rows = tx.execute(_LOSE, {"now": now, "after": LOST_AFTER})
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


_ALIVE = """
SELECT count(*) FROM workers WHERE stopped_at IS NULL
AND heartbeat_at >= coalesce(CAST(:now AS timestamptz), now()) - CAST(:after AS interval)
"""


def count_alive(tx: Transaction, *, now: datetime | None = None) -> int:
    """How many worker processes live."""
    return int(tx.execute(_ALIVE, {"now": now, "after": LOST_AFTER}).scalar_one())


def alive(database_url: str) -> int:
    """How many worker processes of this database live, over a connection of its own."""
    database = Database(database_url, pool_size=0)
    with database.transaction() as tx:
        return count_alive(tx)
