"""Reads the row of a schedule, and locks it for the verbs that change it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.errors import NotFound
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.starts.schedules.decision import ScheduleRules, jitter
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import declared_schedule
from pipeweave.spec.timetable import Timetable

MISSED = declared_schedule.MISSED_POLICIES
OVERLAP = declared_schedule.OVERLAP_POLICIES
SOURCES = ("api", "code", "document", "celery")

# SQL: the columns that `of_row` reads, of schedules `s`.
COLUMNS = """s.tenant_id, s.id, s.pipeline_id, s.cron, s.every_ms, s.at, s.time_zone, s.input,
    s.missed_policy, s.overlap_policy, s.jitter_ms, s.start_at, s.end_at, s.enabled, s.source,
    s.next_scheduled_at, s.next_fire_at, s.last_fire_at, s.last_error_code, s.last_error, s.created_at,
    s.updated_at, s.withdrawn_at"""


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A stored schedule.

    Args:
        next_scheduled_at: its earliest due time that nothing was decided about; None when there is none.
        next_fire_at: when that starts: with the jitter.
        withdrawn_at: since when its code or document declares it no more; None unless that is so.
    """

    tenant: str
    id: str
    pipeline_id: str
    input: Any
    rules: ScheduleRules
    jitter: timedelta
    is_enabled: bool
    source: str
    next_scheduled_at: datetime | None
    next_fire_at: datetime | None
    created_at: datetime
    withdrawn_at: datetime | None

    @property
    def is_withdrawn(self) -> bool:
        return self.withdrawn_at is not None

    @property
    def timetable(self) -> Timetable:
        return self.rules.timetable

    def with_jitter(self, scheduled_at: datetime | None) -> datetime | None:
        """When a due time starts."""
        if scheduled_at is None:
            return None
        return scheduled_at + jitter(self.id, scheduled_at, self.jitter)


def of_row(row: Any) -> ScheduleRow:
    """The schedule of a row with COLUMNS."""
    timetable = timetable_of(row)
    return ScheduleRow(
        row.tenant_id,
        row.id,
        row.pipeline_id,
        row.input,
        ScheduleRules(timetable, row.missed_policy, row.overlap_policy),
        timedelta(milliseconds=row.jitter_ms),
        row.enabled,
        row.source,
        row.next_scheduled_at,
        row.next_fire_at,
        row.created_at,
        row.withdrawn_at,
    )


def timetable_of(row: Any) -> Timetable:
    """The timetable of a row with COLUMNS."""
    return Timetable(
        row.cron,
        row.time_zone,
        None if row.every_ms is None else timedelta(milliseconds=row.every_ms),
        anchor_of(row.start_at or row.created_at),
        row.at,
        row.start_at,
        row.end_at,
    )


def anchor_of(moment: datetime) -> datetime:
    """The due time that an interval is counted from: whole milliseconds, because answers show no more."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


_LOCK = f"SELECT {COLUMNS} FROM schedules AS s WHERE s.tenant_id = :tenant AND s.id = :id FOR UPDATE"


def lock(tx: Transaction, tenant: str, schedule_id: str) -> ScheduleRow | None:
    """Lock a schedule until the commit; None when the tenant has no such schedule."""
    row = tx.execute(_LOCK, {"tenant": tenant, "id": schedule_id}).one_or_none()
    tx.catch_up()
    return None if row is None else of_row(row)


def lock_existing(tx: Transaction, tenant: str, schedule_id: str) -> ScheduleRow:
    """Lock a schedule until the commit.

    Raises:
        NotFound: the tenant has no such schedule.
    """
    schedule = lock(tx, tenant, schedule_id)
    if schedule is None:
        raise not_found(tx, tenant, schedule_id)
    return schedule


def not_found(tx: Transaction, tenant: str, schedule_id: str) -> NotFound:
    """The error for a schedule that the tenant does not have."""
    return unknown_names.not_found(tx, tenant, "schedule", schedule_id)
