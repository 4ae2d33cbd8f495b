"""Sets what an operator allows a tenant: its quotas and its weight, and whether it is enabled.

A disabled tenant begins nothing new, and only operators' requests concern it. What is under way ends: a step
that is cut off would have to be repaired later, and who wants it to stop pauses the tenant or cancels its
runs, too.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time
from typing import Any

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, InvalidInput
from pipeweave.orchestrator.registry import tenants
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.rates import rate_mistakes

log = logging.getLogger(__name__)

# Of the reason why a tenant is disabled, and of the name of who did it, in characters.
MAX_REASON, MAX_NAME = 500, 200
MOST_COUNT, MOST_BYTES, MOST_WEIGHT = 2**31 - 1, 2**63 - 1, 100


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What a tenant may use; None: any number.

    Args:
        runs_per_day: that begin on a day of UTC, without those inside of other runs.
        open_task_runs: of its open runs that are not final.
        stored_bytes: that its runs and uploads have in storage.
        schedules: that are stored, paused ones among them.
        request_rate: requests with its tokens in a time, as `100/m`.
        weight: turns that it gets where tenants take turns, 1 to 100.
    """

    runs_per_day: int | None = None
    open_task_runs: int | None = None
    stored_bytes: int | None = None
    schedules: int | None = None
    request_rate: str | None = None
    weight: int = 1


# Locked first (store/lock_order.py). The runs of today are counted once, so that a quota that is set at noon
# is one of the whole day.
_BEGIN_USE = """
INSERT INTO tenant_use AS u (tenant_id, day, runs)
VALUES (:tenant, :day, (SELECT count(*) FROM runs AS r
    WHERE r.tenant_id = :tenant AND r.parent_run_id IS NULL AND r.id >= CAST(:first AS uuid)))
ON CONFLICT (tenant_id) DO UPDATE SET day = EXCLUDED.day, runs = EXCLUDED.runs, counted_at = NULL
"""
_SET = """
UPDATE tenants SET runs_per_day = :runs_per_day, open_task_runs = :open_task_runs,
    stored_bytes = :stored_bytes, schedules = :schedules, request_rate = :request_rate, weight = :weight
WHERE id = :tenant
"""


def set_limits(tx: Transaction, tenant: str, limits: TenantLimits) -> None:
    """Let exactly these limits hold from now on, and create the tenant if it is new.

    What is used beyond a new quota stays; nothing more is accepted until there is room.

    Raises:
        InvalidInput: a limit is out of range.
    """
    if mistakes := _mistakes(limits):
        raise InvalidInput(f"{mistakes[0].field} {mistakes[0].message}", errors=mistakes)
    tenants.ensure_tenant(tx, tenant)
    midnight = datetime.combine(tx.now.astimezone(UTC).date(), time(), UTC)
    first = ids.first_id_at(int(midnight.timestamp() * 1000))
    tx.execute(_BEGIN_USE, {"tenant": tenant, "day": midnight.date(), "first": first})
    tx.execute(_SET, {"tenant": tenant, **asdict(limits)})
    log.info("tenant.limited", extra={"tenant": tenant, **asdict(limits)})


def _mistakes(limits: TenantLimits) -> list[FieldError]:
    ranges = {
        "runsPerDay": (limits.runs_per_day, 0, MOST_COUNT),
        "openTaskRuns": (limits.open_task_runs, 0, MOST_COUNT),
        "storedBytes": (limits.stored_bytes, 0, MOST_BYTES),
        "schedules": (limits.schedules, 0, MOST_COUNT),
        "weight": (limits.weight, 1, MOST_WEIGHT),
    }
    wrong = [
        FieldError(name, "is out of range", "out_of_range", f"{least} to {most}")
        for name, (value, least, most) in ranges.items()
        if value is not None and not least <= value <= most
    ]
    return wrong + list(rate_mistakes(limits.request_rate, "requestRate"))


_DISABLE = """
UPDATE tenants SET disabled_at = coalesce(disabled_at, :now), disabled_by = :by,
    disabled_reason = coalesce(:reason, disabled_reason)
WHERE id = :tenant
"""
_ENABLE = """
UPDATE tenants SET disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL
WHERE id = :tenant AND disabled_at IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM tenant_deletions AS d WHERE d.tenant_id = tenants.id AND d.finished_at IS NULL)
RETURNING id
"""


def disable(tx: Transaction, tenant: str, *, reason: str | None = None, by: str | None = None) -> None:
    """Let nothing new of a tenant begin, and serve only operators' requests for it. Again, it changes the
    reason alone.

    Args:
        reason: at most MAX_REASON characters; who is refused reads it.
        by: who disables it.

    Raises:
        NotFound: there is no such tenant.
    """
    tenants.require_tenant(tx, tenant)
    parameters = {"tenant": tenant, "now": tx.now, "by": by and by[:MAX_NAME], "reason": reason}
    tx.execute(_DISABLE, parameters)
    log.info("tenant.disabled", extra={"tenant": tenant, "reason": reason})


def enable(tx: Transaction, tenant: str) -> None:
    """Let a disabled tenant go on.

    Raises:
        NotFound: there is no such tenant.
        Conflict: it is not disabled, or is being deleted.
    """
    tenants.require_tenant(tx, tenant)
    if tx.execute(_ENABLE, {"tenant": tenant}).first() is None:
        raise Conflict(
            f"tenant {tenant!r} is not disabled, or is being deleted",
            hint=f"`pipeweave tenant show {tenant}`",
        )
    log.info("tenant.enabled", extra={"tenant": tenant})


_USE = """
SELECT n.id, n.created_at, n.max_active_runs, n.runs_per_day, n.open_task_runs, n.stored_bytes, n.schedules,
    n.request_rate, n.weight, n.disabled_at, n.disabled_by, n.disabled_reason,
    CASE WHEN u.day = CAST(:today AS date) THEN u.runs ELSE 0 END AS used_runs,
    u.stored_bytes AS used_bytes, u.stored_at,
    (SELECT count(*) FROM schedules AS s WHERE s.tenant_id = n.id) AS used_schedules
FROM tenants AS n LEFT JOIN tenant_use AS u ON u.tenant_id = n.id WHERE n.id = :tenant
"""


def row_with_use(tx: Transaction, tenant: str) -> Any:
    """The row of a tenant with its limits, and what it uses of them; None if there is no such tenant."""
    today = tx.now.astimezone(UTC).date()
    return tx.execute(_USE, {"tenant": tenant, "today": today}).one_or_none()
