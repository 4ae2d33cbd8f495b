"""Reads what drives a deployment: the tick, schedules, triggers, services, and PostgreSQL's connections."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.metrics.catalogue import (
    CHORE_DONE,
    CHORE_DURATION,
    CHORE_ERRORS,
    CHORE_FAILING,
    CHORE_SKIPPED,
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_MAX,
    INSTANCES,
    MAX_RUNNING,
    MODE,
    SCHEDULE_LAG,
    SCHEDULES_FAILING,
    SERVICES,
    TENANT,
    TENANT_DISABLED,
    TENANT_QUOTA,
    TENANT_QUOTA_USED,
    TICK_AGE,
    TRIGGERS_FAILING,
)
from pipeweave.orchestrator.metrics.samples import MOST_TENANTS, Samples
from pipeweave.orchestrator.recovery import tick_status
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.database import Transaction

MOST = 10_000
AVAILABLE, DRAINING, SET_ASIDE = "available", "draining", "set_aside"
_MODES = (deployment_mode.RUNNING, deployment_mode.WAITING, deployment_mode.MAINTENANCE)

_DEPLOYMENT = "SELECT d.mode, d.max_running_task_runs AS most FROM orchestrator_state AS d"


def tick(tx: Transaction) -> Samples:
    """The tick and its chores, and the mode."""
    made = Samples()
    last = tick_status.find(tx)
    if last.age is not None:
        made.add(TICK_AGE, last.age.total_seconds())
    for chore in tick_status.chores(tx):
        made.add(CHORE_DURATION, chore.took.total_seconds(), chore.name)
        made.add(CHORE_FAILING, chore.failures, chore.name)
        made.add(CHORE_SKIPPED, chore.skipped, chore.name)
        made.add(CHORE_DONE, chore.done, chore.name)
        made.add(CHORE_ERRORS, chore.errors, chore.name)
    deployment: Any = tx.execute(_DEPLOYMENT).one()
    for each in _MODES:
        made.add(MODE, float(each == deployment.mode), each)
    if deployment.most is not None:
        made.add(MAX_RUNNING, deployment.most)
    return made


_TENANTS = """
SELECT t.id, t.disabled_at IS NOT NULL AS is_disabled, t.runs_per_day, t.open_task_runs, t.stored_bytes,
    t.schedules, CASE WHEN u.day = CAST(now() AT TIME ZONE 'UTC' AS date) THEN u.runs ELSE 0 END AS used_runs,
    u.open_task_runs AS used_open, u.stored_bytes AS used_bytes,
    CASE WHEN t.schedules IS NOT NULL
        THEN (SELECT count(*) FROM schedules AS s WHERE s.tenant_id = t.id) END AS used_schedules
FROM tenants AS t LEFT JOIN tenant_use AS u ON u.tenant_id = t.id ORDER BY t.created_at, t.id LIMIT :most
"""


def tenants(tx: Transaction) -> Samples:
    """Which tenants are shown: the first ones. What they may use, and use."""
    rows: list[Any] = list(tx.execute(_TENANTS, {"most": MOST_TENANTS}))
    made = Samples(first={(TENANT, ""): frozenset(row.id for row in rows)})
    for row in rows:
        made.add(TENANT_DISABLED, float(row.is_disabled), row.id)
        for quota, most, used in (
            ("runs_per_day", row.runs_per_day, row.used_runs),
            ("open_task_runs", row.open_task_runs, row.used_open),
            ("stored_bytes", row.stored_bytes, row.used_bytes),
            ("schedules", row.schedules, row.used_schedules),
        ):
            if most is not None:
                made.add(TENANT_QUOTA, most, row.id, quota)
                made.add(TENANT_QUOTA_USED, used or 0, row.id, quota)
    return made


_OVERDUE = """
SELECT o.tenant_id, extract(epoch FROM now() - min(o.next_fire_at)) AS lag_s
FROM (SELECT s.tenant_id, s.next_fire_at FROM schedules AS s WHERE s.enabled AND s.next_fire_at <= now()
      ORDER BY s.next_fire_at LIMIT :most) AS o
GROUP BY o.tenant_id
"""
_FAILING = """
SELECT o.tenant_id, count(*) AS number
FROM (SELECT s.tenant_id FROM {table} AS s WHERE s.last_error_code IS NOT NULL LIMIT :most) AS o
GROUP BY o.tenant_id
"""
_SCHEDULES_FAILING, _TRIGGERS_FAILING = _FAILING.format(table="schedules"), _FAILING.format(table="triggers")
_BOUNDS = {"most": MOST}


def schedules(tx: Transaction) -> Samples:
    """How late schedules are, and which schedules and triggers could not start their last run."""
    made = Samples()
    for row in tx.execute(_OVERDUE, _BOUNDS):
        made.add(SCHEDULE_LAG, max(0.0, float(row.lag_s)), row.tenant_id)
    for row in tx.execute(_SCHEDULES_FAILING, _BOUNDS):
        made.add(SCHEDULES_FAILING, row.number, row.tenant_id)
    for row in tx.execute(_TRIGGERS_FAILING, _BOUNDS):
        made.add(TRIGGERS_FAILING, row.number, row.tenant_id)
    return made


_SERVICES = """
SELECT s.tenant_id, s.kind, s.status, count(*) AS number FROM services AS s
GROUP BY s.tenant_id, s.kind, s.status
"""
_INSTANCES = f"""
SELECT i.tenant_id, i.service_id,
       CASE WHEN i.drain_requested_at IS NOT NULL OR s.disabled_at IS NOT NULL THEN '{DRAINING}'
           WHEN i.set_aside_at IS NOT NULL THEN '{SET_ASIDE}' ELSE '{AVAILABLE}' END AS state,
       count(*) AS number
FROM service_instances AS i JOIN services AS s ON s.tenant_id = i.tenant_id AND s.id = i.service_id
GROUP BY i.tenant_id, i.service_id, state
"""


def services(tx: Transaction) -> Samples:
    """The registered services, and the processes of HTTP services."""
    made = Samples()
    for row in tx.execute(_SERVICES):
        made.add(SERVICES, row.number, row.tenant_id, row.kind, row.status)
    for row in tx.execute(_INSTANCES):
        for state in (AVAILABLE, DRAINING, SET_ASIDE):
            made.add(INSTANCES, row.number * (state == row.state), row.tenant_id, row.service_id, state)
    return made


# Of another role's connections PostgreSQL does not tell the state. One row is there: our own.
_CONNECTIONS = """
SELECT coalesce(a.state, 'unknown') AS state, count(*) AS number,
       CAST(current_setting('max_connections') AS integer)
           - CAST(current_setting('superuser_reserved_connections') AS integer) AS most
FROM pg_stat_activity AS a WHERE a.backend_type = 'client backend' GROUP BY 1
"""


def connections(tx: Transaction) -> Samples:
    """PostgreSQL's connections."""
    made = Samples()
    rows: list[Any] = list(tx.execute(_CONNECTIONS))
    for row in rows:
        made.add(DATABASE_CONNECTIONS, row.number, row.state)
    made.add(DATABASE_CONNECTIONS_MAX, rows[0].most)
    return made
