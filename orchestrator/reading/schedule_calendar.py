"""The read model of a calendar: what schedules did in a stretch of time, and when they are due in it.

What lies behind was recorded, with what came of it; what lies ahead follows from the timetables. A schedule
that is due very often would bury all others: it is named, and its times are not listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from pipeweave.orchestrator.documents.schedules import CalendarFire, OftenDue, ScheduleCalendar
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.starts.schedules.row import COLUMNS, timetable_of
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document
from pipeweave.spec import timetable
from pipeweave.spec.timetable import Timetable

MOST_SCHEDULES = 100
# Of one schedule in one calendar: each hour of a week. One that is due more often is named only.
MOST_TIMES = 168
MOST_FIRES = 5_000

_SCHEDULES = f"""
SELECT {COLUMNS} FROM schedules AS s
WHERE s.tenant_id = :tenant AND s.withdrawn_at IS NULL
    AND (CAST(:pipeline AS text) IS NULL OR s.pipeline_id = :pipeline)
ORDER BY s.id LIMIT :most
"""

# By the key of the table, for each schedule: so it costs what it shows, however long the history is.
_FIRES = """
SELECT k.id AS schedule_id, f.scheduled_at, f.outcome, f.run_id
FROM unnest(CAST(:ids AS text[])) AS k(id)
CROSS JOIN LATERAL (
    SELECT f.scheduled_at, f.outcome, f.run_id FROM schedule_fires AS f
    WHERE f.tenant_id = :tenant AND f.schedule_id = k.id
        AND f.scheduled_at >= :begin AND f.scheduled_at < :end
    ORDER BY f.scheduled_at DESC LIMIT :times) AS f
ORDER BY f.scheduled_at, k.id LIMIT :most
"""


def schedule_calendar(
    tx: Transaction, tenant: str, begin: datetime, end: datetime, *, pipeline_id: str | None = None
) -> Document:
    """The times from `begin` until just before `end`.

    Of a paused schedule only what it did is listed. At most MOST_SCHEDULES schedules are looked at, by their
    ids; `isCapped` says that there are more.
    """
    most = MOST_SCHEDULES + 1
    rows = tx.execute(_SCHEDULES, {"tenant": tenant, "pipeline": pipeline_id, "most": most}).all()
    shown = rows[:MOST_SCHEDULES]
    due = {row.id: _times(timetable_of(row), begin, end) for row in shown if row.enabled}
    often = [row for row in shown if len(due.get(row.id, ())) > MOST_TIMES]
    named = {row.id: row.pipeline_id for row in shown if row not in often}
    fires = _recorded(tx, tenant, named, begin, end)
    known = {(each["scheduleId"], each["at"]) for each in fires}
    ahead = [
        CalendarFire.of(schedule_id=id, pipeline_id=named[id], at=at, outcome=None, run_id=None)
        for id in named
        for at in due.get(id, ())
        if at > tx.now and (id, iso(at)) not in known
    ]
    return ScheduleCalendar.of(
        from_=begin,
        to=end,
        fires=sorted([*fires, *ahead], key=lambda each: (each["at"], each["scheduleId"])),
        often=[_often(row) for row in often],
        paused=[row.id for row in shown if not row.enabled],
        is_capped=len(rows) > MOST_SCHEDULES,
    )


# The weeks of a calendar begin at the same moments whoever looks: the times of a schedule are reckoned once.
@lru_cache(maxsize=1_000)
def _times(times: Timetable, begin: datetime, end: datetime) -> Sequence[datetime]:
    return tuple(times.within(begin, end, MOST_TIMES + 1))


def _recorded(
    tx: Transaction, tenant: str, named: dict[str, str], begin: datetime, end: datetime
) -> list[Document]:
    parameters = {
        "tenant": tenant,
        "ids": list(named),
        "begin": begin,
        "end": end,
        "times": MOST_TIMES,
        "most": MOST_FIRES,
    }
    return [
        CalendarFire.of(row, pipeline_id=named[row.schedule_id], at=row.scheduled_at)
        for row in tx.execute(_FIRES, parameters)
    ]


def _often(row: Any) -> Document:
    text = None if row.cron is None else timetable.in_words(row.cron)
    return OftenDue.of(row, schedule_id=row.id, text=text)
