"""Refuses new runs and schedules of a tenant whose quotas are used up, and counts what is accepted.

A transaction that writes runs of a tenant with quotas locks the tenant's row in `tenant_use`: of two such
transactions the second sees what the first has counted, so no quota is exceeded by a race. The runs of a day
are counted there, because to count their rows would cost the more, the more the quota allows. Open task runs
are counted from their rows, which cannot leak, at most once in COUNT_EVERY; what was accepted since is added.
The stored bytes are those of the last sum (objects/stored_bytes.py).

A tenant without quotas costs nothing: whether it has some is one of its start conditions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from pipeweave.errors import QuotaExceeded, TenantDisabled
from pipeweave.orchestrator.domain import gcra, iso
from pipeweave.orchestrator.domain.states import FINAL_TASK, OPEN_RUN, sql_in
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.rates import Rate

# Open task runs are counted anew when the last count is this old.
COUNT_EVERY = timedelta(seconds=1)
# The stored bytes are summed up anew when the last sum is this old.
SUM_EVERY = timedelta(minutes=10)
# When a refused caller may try again where nobody knows when there will be room (s).
RETRY_AFTER_S = 5

_LOCK = "SELECT 1 FROM tenant_use AS u WHERE u.tenant_id = :tenant FOR NO KEY UPDATE"
_LIMITS = """
SELECT n.runs_per_day AS most_runs, n.open_task_runs AS most_open, n.stored_bytes AS most_bytes,
    u.day, u.runs, u.open_task_runs, u.counted_at, u.stored_bytes, u.stored_at
FROM tenants AS n JOIN tenant_use AS u ON u.tenant_id = n.id WHERE n.id = :tenant
"""
# Counting ends beyond the quota: more is not asked.
_COUNT_OPEN = f"""
SELECT count(*) FROM (
    SELECT 1 FROM runs AS r JOIN task_runs AS t ON t.run_id = r.id
    WHERE r.tenant_id = :tenant AND r.status IN {sql_in(OPEN_RUN)}
      AND t.status NOT IN {sql_in(FINAL_TASK)} LIMIT :most) AS o
"""


@dataclass(frozen=True, slots=True)
class QuotaCount:
    """What counts for the quotas of a tenant, new runs among it.

    Args:
        day: of UTC.
        runs: that began on this day.
        open_task_runs: as they were counted, and what was accepted since.
        counted_at: when they were counted; None: there is no quota of them.
    """

    tenant: str
    day: date
    runs: int
    open_task_runs: int
    counted_at: datetime | None


def check_runs(tx: Transaction, tenant: str, runs: int, task_runs: int) -> QuotaCount | None:
    """Lock what the tenant uses, and make sure that its quotas have room for new runs.

    Args:
        runs: how many.
        task_runs: that they have together.

    Returns:
        What counts with them, for `note`; None if the tenant has no quota any more.

    Raises:
        QuotaExceeded: with the quota, what is used of it and when there is room.
    """
    tx.hold()
    row: Any = tx.execute(_LIMITS, {"tenant": tenant}, lock=_LOCK).one_or_none()
    if row is None:
        return None
    tx.catch_up()
    counted = _with_open(tx, row, _of_today(tenant, row, tx.now))
    _check(tenant, "runsPerDay", row.most_runs, counted.runs, runs, tx.now, midnight(counted.day))
    _check(tenant, "openTaskRuns", row.most_open, counted.open_task_runs, task_runs, tx.now)
    if row.most_bytes is not None and row.stored_bytes >= row.most_bytes:
        frees_at = None if row.stored_at is None else row.stored_at + SUM_EVERY
        raise exceeded(tenant, "storedBytes", row.most_bytes, row.stored_bytes, tx.now, summed_at=frees_at)
    return replace(counted, runs=counted.runs + runs, open_task_runs=counted.open_task_runs + task_runs)


def lock(tx: Transaction, tenant: str) -> None:
    """Lock what a tenant with quotas uses: for who locks a later row before `check_runs`."""
    tx.execute(_LOCK, {"tenant": tenant})


def _of_today(tenant: str, row: Any, now: datetime) -> QuotaCount:
    # Of two processes around midnight, the one that is late counts for the day that has begun.
    today = max(now.astimezone(UTC).date(), row.day)
    return QuotaCount(tenant, today, row.runs if row.day == today else 0, row.open_task_runs, row.counted_at)


def _with_open(tx: Transaction, row: Any, counted: QuotaCount) -> QuotaCount:
    if row.most_open is None:
        return replace(counted, open_task_runs=0, counted_at=None)
    if counted.counted_at is not None and tx.now - counted.counted_at < COUNT_EVERY:
        return counted
    number = open_task_runs(tx, counted.tenant, row.most_open + 1)
    return replace(counted, open_task_runs=number, counted_at=tx.now)


def midnight(day: date) -> datetime:
    """When a day of UTC ends."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def _check(
    tenant: str,
    name: str,
    most: int | None,
    used: int,
    wanted: int,
    now: datetime,
    frees_at: datetime | None = None,
) -> None:
    if most is not None and used + wanted > most:
        raise exceeded(tenant, name, most, used, now, frees_at=frees_at, wanted=wanted)


_SAID = {
    "runsPerDay": ("runs a day", "the day of UTC ends at midnight"),
    "openTaskRuns": ("open task runs", "there is room when task runs end"),
    "storedBytes": ("stored bytes", "delete runs or uploads; the next sum shows it"),
    "schedules": ("schedules", "delete one first"),
    "requestRate": ("requests", "send fewer requests"),
}


def exceeded(
    tenant: str,
    name: str,
    most: int | str,
    used: int | None,
    now: datetime,
    *,
    frees_at: datetime | None = None,
    summed_at: datetime | None = None,
    wanted: int = 1,
) -> QuotaExceeded:
    """The error for a quota without room.

    Args:
        name: of the quota, as the API has it.
        most: the quota.
        used: of it; None where that is not counted.
        frees_at: when there is room again; None: nobody knows.
        summed_at: when what is used is summed up again, if it is.
        wanted: how much was asked for.
    """
    what, hint = _SAID[name]
    allowed = most if isinstance(most, str) else f"{most:,}"
    used_text = "" if used is None else f", {used:,} are used"
    more = f" and {wanted:,} more are asked for" if wanted > 1 else ""
    error = QuotaExceeded(
        f"tenant {tenant!r} may have {allowed} {what}{used_text}{more}",
        hint=f"{hint}; an operator changes it with `pipeweave tenant limits {tenant}`",
        quota=name,
        limit=most,
        used=used,
        freesAt=iso(frees_at),
    )
    again = frees_at or summed_at
    error.retry_after_s = RETRY_AFTER_S if again is None else max(1, -int((now - again).total_seconds() // 1))
    return error


def open_task_runs(tx: Transaction, tenant: str, most: int) -> int:
    """How many task runs of open runs are not final; counting ends at `most`."""
    return int(tx.execute(_COUNT_OPEN, {"tenant": tenant, "most": most}).scalar_one())


_NOTE = """
UPDATE tenant_use SET day = :day, runs = :runs, open_task_runs = :open_task_runs, counted_at = :counted_at
WHERE tenant_id = :tenant
"""


def note(tx: Transaction, counted: QuotaCount) -> None:
    """Note what counts now that the runs are written: the row is locked since `check_runs`."""
    tx.execute(
        _NOTE,
        {
            "tenant": counted.tenant,
            "day": counted.day,
            "runs": counted.runs,
            "open_task_runs": counted.open_task_runs,
            "counted_at": counted.counted_at,
        },
    )


_SCHEDULES = """
SELECT n.schedules AS most, (SELECT count(*) FROM schedules AS s WHERE s.tenant_id = n.id) AS used
FROM tenants AS n WHERE n.id = :tenant AND n.schedules IS NOT NULL
"""


def check_schedules(tx: Transaction, tenant: str) -> None:
    """Make sure that a tenant may have one more schedule.

    Raises:
        QuotaExceeded: it has as many as it may.
    """
    row: Any = tx.execute(_SCHEDULES, {"tenant": tenant}, lock=_LOCK).one_or_none()
    if row is not None:
        _check(tenant, "schedules", row.most, row.used, 1, tx.now)


_REQUEST_AT = "SELECT request_at FROM tenant_use WHERE tenant_id = :tenant"
_SHARE = """
UPDATE tenant_use SET request_at = :at WHERE tenant_id = :tenant AND request_at IS DISTINCT FROM :at
"""


def share_requests(tx: Transaction, tenant: str, rate: Rate, served: int, since: datetime) -> datetime:
    """Count requests that one process has served.

    Args:
        since: when the first of them was served.

    Returns:
        When the next one of any process would be on time.
    """
    at = tx.execute(_REQUEST_AT, {"tenant": tenant}, lock=_LOCK).scalar_one_or_none()
    on_time = gcra.on_time(rate, at, since, 0)
    if served:
        on_time = gcra.after(rate, on_time, served)
        tx.execute(_SHARE, {"tenant": tenant, "at": on_time})
    return on_time


_DISABLED = "SELECT disabled_at, disabled_reason FROM tenants WHERE id = :tenant"


def disabled(tx: Transaction, tenant: str) -> TenantDisabled:
    """The error for new work of a tenant that is disabled."""
    row: Any = tx.execute(_DISABLED, {"tenant": tenant}).one()
    return refusal(tenant, row.disabled_at, row.disabled_reason)


def refusal(tenant: str, since: datetime | None, reason: str | None) -> TenantDisabled:
    """The error for what a disabled tenant asks for.

    Args:
        since: when it was disabled.
        reason: what the operator said.
    """
    return TenantDisabled(
        f"tenant {tenant!r} is disabled" + (f": {reason}" if reason else ""),
        hint=f"an operator enables it with `pipeweave tenant enable {tenant}`",
        disabledAt=iso(since),
    )
