"""Keeps the instances of HTTP services: where each one listens, and whether it takes dispatches.

An instance that refuses a dispatch, or does not answer it, is set aside: dispatches go to the other
instances of its service, and the tick asks it from time to time whether it is back (dispatch/probes.py). A
registration, an accepted dispatch and a good probe bring it back. One of which nothing was heard for a while
is asked, too: an instance that died idle must not look alive until a dispatch fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry.registration import Registration
from pipeweave.orchestrator.store.database import Transaction

# An instance that was set aside is asked after so long, and after twice as long each time, LATEST at most.
FIRST_PROBE = timedelta(seconds=1)
LATEST_PROBE = timedelta(seconds=60)
# An instance that takes dispatches is asked when it said nothing for so long. Those of our kit register again
# each minute, so that they are not asked.
QUIET_AFTER = timedelta(seconds=90)
# An instance that did not answer for so long is forgotten.
FORGOTTEN_AFTER = timedelta(days=7)
MAX_ERROR = 1_000


@dataclass(frozen=True, slots=True)
class Instance:
    """A process of an HTTP service.

    Args:
        base_url: where dispatches to it go.
        tasks: that it named when it registered.
        set_aside_at: since when it takes no dispatches; None when it does.
        refusals: how often in a row it refused a dispatch or a probe.
        drains: an operator lets it take no dispatches, until it is resumed.
    """

    tenant: str
    service_id: str
    base_url: str
    tasks: frozenset[str]
    set_aside_at: datetime | None = None
    refusals: int = 0
    last_error: str | None = None
    drains: bool = False


_STORE = """
INSERT INTO service_instances (tenant_id, service_id, base_url, registered_url, version, tasks, digest,
    registered_at, last_seen_at)
VALUES (:tenant, :service, :base_url, :registered_url, :version, CAST(:tasks AS text[]), :digest,
    now(), now())
ON CONFLICT (tenant_id, service_id, base_url) DO UPDATE SET registered_url = excluded.registered_url,
    version = excluded.version, tasks = excluded.tasks, digest = excluded.digest,
    registered_at = excluded.registered_at, last_seen_at = excluded.last_seen_at, set_aside_at = NULL,
    refusals = 0, probe_at = NULL, last_error = NULL
"""


def store(tx: Transaction, tenant: str, registration: Registration) -> None:
    """Write the instance that registers: from now on it takes dispatches."""
    tx.execute(
        _STORE,
        {
            **_named(tenant, registration.service_id, registration.target or ""),
            "registered_url": registration.base_url,
            "version": registration.version,
            "tasks": sorted(task.id for task in registration.tasks),
            "digest": registration.digest,
        },
    )


# The same registration again, while nothing changed since: an instance says that it is alive.
_SEEN_AGAIN = """
WITH seen AS (
    UPDATE service_instances AS i SET last_seen_at = now(), set_aside_at = NULL, refusals = 0,
        probe_at = NULL, last_error = NULL
    WHERE i.tenant_id = :tenant AND i.service_id = :service AND i.base_url = :base_url AND i.digest = :digest
        AND NOT EXISTS (SELECT 1 FROM unnest(i.tasks) AS n(id) LEFT JOIN tasks AS t
            ON t.tenant_id = i.tenant_id AND t.id = n.id AND t.service_id = i.service_id
                AND t.orphaned_at IS NULL WHERE t.id IS NULL)
    RETURNING 1
)
UPDATE services AS s SET last_heartbeat = now(), status = 'active'
WHERE s.tenant_id = :tenant AND s.id = :service AND EXISTS (SELECT 1 FROM seen)
"""


def seen_again(tx: Transaction, tenant: str, registration: Registration) -> bool:
    """Note a registration that says what the instance said before; False when it says something new, or when
    one of its tasks was removed or taken over since.
    """
    parameters = _named(tenant, registration.service_id, registration.target or "")
    return tx.execute(_SEEN_AGAIN, {**parameters, "digest": registration.digest}).rowcount > 0


_REMOVE = """
WITH gone AS (
    DELETE FROM service_instances
    WHERE tenant_id = :tenant AND service_id = :service AND base_url = :base_url RETURNING 1
), left_over AS (
    SELECT count(*) FILTER (WHERE i.base_url <> :base_url) AS number FROM service_instances AS i
    WHERE i.tenant_id = :tenant AND i.service_id = :service
), service AS (
    UPDATE services AS s SET status = 'inactive' FROM left_over AS l
    WHERE s.tenant_id = :tenant AND s.id = :service AND s.kind = 'http' AND l.number = 0
        AND EXISTS (SELECT 1 FROM gone)
    RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM gone) AS is_gone
"""


def remove(tx: Transaction, tenant: str, service_id: str, base_url: str) -> None:
    """Take away an instance that stops; its service is `inactive` when it was the last one.

    Raises:
        NotFound: the service has no such instance.
    """
    if not tx.execute(_REMOVE, _named(tenant, service_id, base_url)).one().is_gone:
        raise NotFound(
            f"service {service_id[:200]!r} has no instance {base_url[:200]!r}", serviceId=service_id[:200]
        )


_COLUMNS = """i.tenant_id, i.service_id, i.base_url, i.tasks, i.set_aside_at, i.refusals, i.last_error,
    i.drain_requested_at IS NOT NULL AS drains"""

_OF_SERVICE = f"""
SELECT {_COLUMNS}
FROM service_instances AS i WHERE i.tenant_id = :tenant AND i.service_id = :service
ORDER BY i.set_aside_at NULLS FIRST, i.base_url LIMIT :most
"""
# A dispatch chooses among so many instances of a service.
MOST_CHOSEN_FROM = 200


def of_service(tx: Transaction, tenant: str, service_id: str) -> list[Instance]:
    """The instances of a service: first those that take dispatches, then the longest set aside."""
    parameters = {"tenant": tenant, "service": service_id, "most": MOST_CHOSEN_FROM}
    return [_of_row(row) for row in tx.execute(_OF_SERVICE, parameters)]


_SET_ASIDE = """
WITH aside AS (
    UPDATE service_instances AS i SET set_aside_at = coalesce(i.set_aside_at, now()),
        refusals = i.refusals + 1, last_error = :error,
        last_seen_at = CASE WHEN :answered THEN now() ELSE i.last_seen_at END,
        probe_at = now() + least(:first * power(2, least(i.refusals, 20)), :latest) * interval '1 second'
    WHERE i.tenant_id = :tenant AND i.service_id = :service AND i.base_url = :base_url
    RETURNING 1
)
UPDATE services AS s SET status = 'disconnected'
WHERE s.tenant_id = :tenant AND s.id = :service AND s.status = 'active' AND EXISTS (SELECT 1 FROM aside)
    AND NOT EXISTS (SELECT 1 FROM service_instances AS o WHERE o.tenant_id = s.tenant_id
        AND o.service_id = s.id AND o.base_url <> :base_url AND o.set_aside_at IS NULL)
"""


def set_aside(
    tx: Transaction,
    tenant: str,
    service_id: str,
    base_url: str,
    error: str,
    *,
    answered: bool = False,
) -> None:
    """Send no dispatches to an instance until it answers a probe; its service is `disconnected` when it was
    the last one that took any.

    Args:
        error: why, for people.
        answered: it said no: it is there. By default it did not answer.
    """
    parameters = {
        **_named(tenant, service_id, base_url),
        "error": error[:MAX_ERROR],
        "answered": answered,
        "first": FIRST_PROBE.total_seconds(),
        "latest": LATEST_PROBE.total_seconds(),
    }
    tx.execute(_SET_ASIDE, parameters)


_BRING_BACK = """
WITH back AS (
    UPDATE service_instances AS i SET set_aside_at = NULL, refusals = 0, probe_at = NULL, last_error = NULL,
        last_seen_at = now()
    WHERE i.tenant_id = :tenant AND i.service_id = :service AND i.base_url = :base_url
        AND i.set_aside_at IS NOT NULL
    RETURNING 1
)
UPDATE services AS s SET status = 'active', last_heartbeat = now()
WHERE s.tenant_id = :tenant AND s.id = :service AND s.status = 'disconnected' AND EXISTS (SELECT 1 FROM back)
"""


def bring_back(tx: Transaction, tenant: str, service_id: str, base_url: str) -> None:
    """Send dispatches to an instance again: it answered."""
    tx.execute(_BRING_BACK, _named(tenant, service_id, base_url))


_SEEN = """
WITH seen AS (
    UPDATE service_instances AS i SET last_seen_at = now()
    WHERE i.tenant_id = :tenant AND i.service_id = :service AND i.base_url = :base_url RETURNING 1
)
UPDATE services AS s SET last_heartbeat = now()
WHERE s.tenant_id = :tenant AND s.id = :service AND EXISTS (SELECT 1 FROM seen)
"""


def seen(tx: Transaction, tenant: str, service_id: str, base_url: str) -> None:
    """Note that an instance has taken a dispatch, not with each one, or answered a probe."""
    tx.execute(_SEEN, _named(tenant, service_id, base_url))


_IS_QUIET = f"""i.set_aside_at IS NULL
    AND i.last_seen_at < now() - interval '{QUIET_AFTER.total_seconds()} seconds'"""

# SQL: whether an instance is to be asked now.
IS_PROBE_DUE = f"""EXISTS (SELECT 1 FROM service_instances AS i
    WHERE i.probe_at <= now() OR ({_IS_QUIET}))"""

_TAKE_PROBES = f"""
WITH due AS MATERIALIZED (
    SELECT i.tenant_id, i.service_id, i.base_url FROM service_instances AS i WHERE i.probe_at <= now()
    ORDER BY i.probe_at LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE service_instances AS i SET probe_at = now() + CAST(:latest AS interval) FROM due AS d
WHERE i.tenant_id = d.tenant_id AND i.service_id = d.service_id AND i.base_url = d.base_url
RETURNING {_COLUMNS}
"""


def take_probes(tx: Transaction, most: int) -> list[Instance]:
    """The instances that are to be asked now; nobody else asks them meanwhile."""
    return [_of_row(row) for row in tx.execute(_TAKE_PROBES, {"most": most, "latest": LATEST_PROBE})]


# One that runs something may be too busy to answer, and its attempts tell themselves whether they live.
_QUIET = f"""
SELECT {_COLUMNS} FROM service_instances AS i
WHERE {_IS_QUIET} AND NOT EXISTS (SELECT 1 FROM task_runs AS t
    WHERE t.status = 'running' AND t.tenant_id = i.tenant_id
        AND t.worker = i.service_id || ' ' || i.base_url)
ORDER BY i.last_seen_at LIMIT :most
"""


def quiet(tx: Transaction, most: int) -> list[Instance]:
    """The instances that take dispatches, run nothing, and said nothing for QUIET_AFTER."""
    return [_of_row(row) for row in tx.execute(_QUIET, {"most": most})]


_FORGET = """
DELETE FROM service_instances AS i WHERE i.set_aside_at < now() - CAST(:after AS interval)
    AND i.last_seen_at < now() - CAST(:after AS interval)
"""


# SQL: whether an instance `i` that was set aside fell silent, instead of saying no.
IS_SILENT = f"""(i.set_aside_at IS NOT NULL AND (i.last_seen_at < i.set_aside_at
    OR i.last_seen_at < now() - interval '{QUIET_AFTER.total_seconds()} seconds'))"""


def forget_gone(tx: Transaction) -> int:
    """Delete the instances that did not answer for FORGOTTEN_AFTER. Returns their number."""
    return tx.execute(_FORGET, {"after": FORGOTTEN_AFTER}).rowcount


def _named(tenant: str, service_id: str, base_url: str) -> dict[str, Any]:
    return {"tenant": tenant, "service": service_id, "base_url": base_url}


def _of_row(row: Any) -> Instance:
    return Instance(
        row.tenant_id,
        row.service_id,
        row.base_url,
        frozenset(row.tasks),
        row.set_aside_at,
        row.refusals,
        row.last_error,
        row.drains,
    )
