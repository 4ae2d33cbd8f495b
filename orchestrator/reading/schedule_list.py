"""Read models of schedules: the list, and one schedule with its next due times and its last fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.orchestrator.documents.schedules import (
    Fire,
    ListedSchedule,
    Schedule,
    ScheduleDetail,
    ScheduleError,
)
from pipeweave.orchestrator.starts.schedules.row import COLUMNS, not_found, timetable_of
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from pipeweave.spec import timetable
from pipeweave.spec.timetable import first_times

NEXT_SHOWN = 5
LAST_SHOWN = 20

_SCHEDULES = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND {{where}} ORDER BY s.id LIMIT :limit
"""


# State -> SQL condition; a schedule is in one of them.
STATES = {
    "on": "s.enabled AND s.next_fire_at IS NOT NULL AND s.last_error_code IS NULL",
    "failed": "s.enabled AND s.last_error_code IS NOT NULL",
    "paused": "NOT s.enabled",
    "over": "s.enabled AND s.next_fire_at IS NULL AND s.last_error_code IS NULL",
}


def schedules(
    tx: Transaction,
    tenant: str,
    page: PageRequest,
    *,
    pipeline_id: str | None = None,
    state: str | None = None,
    recent: int = 0,
) -> Document:
    """The tenant's schedules by id, all of them or those of one pipeline: {items, nextCursor}. Those that
    their code declares no more are left out.

    Args:
        state: one of STATES; `failed` are those whose last fire failed.
        recent: so many of the last fires of each come with it, as `lastFires`.
    """
    after = page.after("schedules", str)
    where = "s.withdrawn_at IS NULL" + (" AND s.id > :after" if after else "")
    if state is not None:
        where += f" AND {STATES[state]}"
    if pipeline_id is not None:
        where += " AND s.pipeline_id = :pipeline_id"
    parameters = {"tenant": tenant, "after": after and after[0], "pipeline_id": pipeline_id}
    rows = tx.execute(_SCHEDULES.format(where=where), {**parameters, "limit": page.limit + 1}).all()
    fires = _last_fires(tx, tenant, [row.id for row in rows[: page.limit]], recent)

    def show(row: Any) -> Document:
        return _schedule(row, ListedSchedule, last_fires=fires.get(row.id, []))

    return page.cut(rows, "schedules", lambda row: (row.id,), show)


def _last_fires(tx: Transaction, tenant: str, ids: Sequence[str], most: int) -> Mapping[str, list[Document]]:
    fires: dict[str, list[Document]] = {}
    if ids and most:
        for row in tx.execute(_FIRES, {"tenant": tenant, "ids": ids, "most": most}):
            fires.setdefault(row.schedule_id, []).append(_fire(row))
    return fires


def schedule(tx: Transaction, tenant: str, schedule_id: str) -> Document:
    """One schedule, with its next due times as if it were not paused, and its last fires.

    Raises:
        NotFound: the tenant has no such schedule.
    """
    parameters = {"tenant": tenant, "id": schedule_id, "limit": 1}
    row = tx.execute(_SCHEDULES.format(where="s.id = :id"), parameters).one_or_none()
    if row is None:
        raise not_found(tx, tenant, schedule_id)
    times = [] if row.withdrawn_at is not None else first_times(timetable_of(row), tx.now, NEXT_SHOWN)
    fires = _last_fires(tx, tenant, [schedule_id], LAST_SHOWN)
    return _schedule(row, ScheduleDetail, next_fires=times, last_fires=fires.get(schedule_id, []))


# By the key of the table, one schedule after the other: the newest times first.
_FIRES = """
SELECT f.* FROM unnest(CAST(:ids AS text[])) AS w(id) CROSS JOIN LATERAL (
    SELECT f.schedule_id, f.scheduled_at, f.fired_at, f.kind, f.outcome, f.reason, f.error_code, f.error,
        f.run_id, (SELECT r.status FROM runs AS r WHERE r.id = f.run_id) AS run_status
    FROM schedule_fires AS f WHERE f.tenant_id = :tenant AND f.schedule_id = w.id
    ORDER BY f.scheduled_at DESC LIMIT :most
) AS f ORDER BY f.schedule_id, f.scheduled_at DESC
"""


def _schedule(row: Any, answer: type[Schedule], **more: Any) -> Document:
    return answer.of(
        row,
        text=None if row.cron is None else timetable.in_words(row.cron),
        paused=not row.enabled,
        next_fire_at=row.next_fire_at if row.enabled else None,
        last_error=_error(row.last_error_code, row.last_error),
        **more,
    )


def _fire(row: Any) -> Document:
    return Fire.of(row, error=_error(row.error_code, row.error))


def _error(code: str | None, message: str | None) -> Document | None:
    return None if code is None else ScheduleError.of(code=code, message=message)
