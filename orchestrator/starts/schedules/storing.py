"""The verbs that store, pause, resume and delete a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.queueing import quotas
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.starts.failures import refuse
from pipeweave.orchestrator.starts.schedules import row as rows
from pipeweave.orchestrator.starts.schedules.decision import ScheduleRules, jitter
from pipeweave.orchestrator.starts.schedules.row import ScheduleRow
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.spec import PipelineSpec
from pipeweave.spec.timetable import Timetable


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What somebody wants a schedule to be. One of `cron`, `every_ms` and `at` is given.

    Args:
        paused: None leaves a stored schedule as it is.
    """

    pipeline_id: str
    cron: str | None = None
    every_ms: int | None = None
    at: datetime | None = None
    time_zone: str = "UTC"
    input: Any = None
    missed: str = "one"
    overlap: str = "allow"
    jitter_ms: int = 0
    start_at: datetime | None = None
    end_at: datetime | None = None
    paused: bool | None = None

    def timetable(self, created_at: datetime) -> Timetable:
        """When it is due; intervals are counted from its start, or else from its creation."""
        every = None if self.every_ms is None else timedelta(milliseconds=self.every_ms)
        anchor = rows.anchor_of(self.start_at or created_at)
        return Timetable(self.cron, self.time_zone, every, anchor, self.at, self.start_at, self.end_at)

    @classmethod
    def declared(cls, spec: PipelineSpec) -> ScheduleSpec:
        """The schedule that a pipeline declares."""
        schedule = spec.schedule
        assert schedule is not None
        return cls(
            spec.id,
            schedule.cron,
            schedule.every_ms,
            schedule.at,
            schedule.time_zone,
            schedule.input,
            schedule.missed,
            schedule.overlap,
            schedule.jitter_ms,
            schedule.start_at,
            schedule.end_at,
            schedule.paused,
        )

    def is_stored_as(self, schedule: ScheduleRow, timetable: Timetable) -> bool:
        """Whether a stored schedule is this one, whether it is paused or not.

        Args:
            timetable: this one's, counted from the creation of the stored one.
        """
        return (
            (schedule.pipeline_id, schedule.input) == (self.pipeline_id, self.input)
            and schedule.rules == ScheduleRules(timetable, self.missed, self.overlap)
            and schedule.jitter == timedelta(milliseconds=self.jitter_ms)
        )


# The row's own time of creation stays: intervals are counted from it.
_PUT = """
INSERT INTO schedules AS s (tenant_id, id, pipeline_id, cron, every_ms, at, time_zone, input, missed_policy,
    overlap_policy, jitter_ms, start_at, end_at, enabled, source, next_scheduled_at, next_fire_at, created_at,
    updated_at)
VALUES (:tenant, :id, :pipeline_id, :cron, :every_ms, :at, :time_zone, CAST(:input AS jsonb), :missed,
    :overlap, :jitter_ms, :start_at, :end_at, :enabled, :source, :next_at, :next_fire_at, :now, :now)
ON CONFLICT (tenant_id, id) DO UPDATE SET pipeline_id = EXCLUDED.pipeline_id, cron = EXCLUDED.cron,
    every_ms = EXCLUDED.every_ms, at = EXCLUDED.at, time_zone = EXCLUDED.time_zone, input = EXCLUDED.input,
    missed_policy = EXCLUDED.missed_policy, overlap_policy = EXCLUDED.overlap_policy,
    jitter_ms = EXCLUDED.jitter_ms, start_at = EXCLUDED.start_at, end_at = EXCLUDED.end_at,
    enabled = EXCLUDED.enabled, source = EXCLUDED.source, next_scheduled_at = EXCLUDED.next_scheduled_at,
    next_fire_at = EXCLUDED.next_fire_at, updated_at = EXCLUDED.updated_at,
    last_error_code = NULL, last_error = NULL, withdrawn_at = NULL
"""


def put(tx: Transaction, tenant: str, schedule_id: str, spec: ScheduleSpec, *, source: str = "api") -> bool:
    """Store a schedule, or change it to be exactly this.

    If the timetable stays the same, so does the next due time, even one that is due already. Otherwise the
    first due time after now is the next one.

    Returns:
        Whether it is new.

    Raises:
        NotFound: the tenant has no such pipeline.
        InputValidationFailed: the pipeline refuses the input.
        InvalidInput: the input is too large, or the schedule would never be due.
        QuotaExceeded: it is new, and the tenant has as many as it may.
    """
    _check_input(tx, tenant, spec)
    before = rows.lock(tx, tenant, schedule_id)
    if before is None:
        quotas.check_schedules(tx, tenant)
    timetable = spec.timetable(tx.now if before is None else before.created_at)
    is_enabled = not spec.paused if spec.paused is not None else before is None or before.is_enabled
    next_at = _next(before, timetable, is_enabled, tx.now)
    if next_at is None and (before is None or before.timetable != timetable):
        raise _never_due(spec)
    write(tx, tenant, schedule_id, spec, source, is_enabled, next_at)
    return before is None


def write(
    tx: Transaction,
    tenant: str,
    schedule_id: str,
    spec: ScheduleSpec,
    source: str,
    is_enabled: bool,
    next_at: datetime | None,
) -> None:
    """Write the row of a schedule, which is locked if it is there.

    Args:
        next_at: its next due time; None when there is none.
    """
    tx.execute(_PUT, _columns(tx, tenant, schedule_id, spec, source, is_enabled, next_at))


def _next(
    before: ScheduleRow | None, timetable: Timetable, is_enabled: bool, now: datetime
) -> datetime | None:
    if before is None or before.timetable != timetable or before.is_withdrawn:
        return timetable.after(now)
    return before.next_scheduled_at if before.is_enabled and is_enabled else timetable.after(now)


def _never_due(spec: ScheduleSpec) -> InvalidInput:
    field = "at" if spec.at is not None else "endAt"
    message = "leaves no time at which the schedule is due from now on"
    return InvalidInput(
        f"{field} {message}", errors=[FieldError(field, message, "never_due", "a later time")]
    )


def _columns(
    tx: Transaction,
    tenant: str,
    schedule_id: str,
    spec: ScheduleSpec,
    source: str,
    is_enabled: bool,
    next_at: datetime | None,
) -> dict[str, Any]:
    most = timedelta(milliseconds=spec.jitter_ms)
    return {
        "tenant": tenant,
        "id": schedule_id,
        "pipeline_id": spec.pipeline_id,
        "cron": spec.cron,
        "every_ms": spec.every_ms,
        "at": spec.at,
        "time_zone": spec.time_zone,
        "input": to_json(spec.input),
        "missed": spec.missed,
        "overlap": spec.overlap,
        "jitter_ms": spec.jitter_ms,
        "start_at": spec.start_at,
        "end_at": spec.end_at,
        "enabled": is_enabled,
        "source": source,
        "next_at": next_at,
        "next_fire_at": None if next_at is None else next_at + jitter(schedule_id, next_at, most),
        "now": tx.now,
    }


def _check_input(tx: Transaction, tenant: str, spec: ScheduleSpec) -> None:
    stored = pipelines.get(tx, tenant, spec.pipeline_id).spec
    size = len(orjson.dumps(spec.input))
    if size > INLINE_BYTES:
        message = f"takes {size:,} bytes of JSON, at most {INLINE_BYTES:,} are stored with a schedule"
        raise InvalidInput(
            f"input {message}",
            errors=[FieldError("input", message, "too_big")],
            hint="store the value elsewhere, and give the schedule its address",
        )
    refuse(spec.pipeline_id, run_input_errors(stored.input_schema, spec.input))


_DELETE = "DELETE FROM schedules WHERE tenant_id = :tenant AND id = :id"


def delete(tx: Transaction, tenant: str, schedule_id: str) -> None:
    """Delete a schedule and the list of its fires. Its runs go on.

    Raises:
        NotFound: the tenant has no such schedule.
    """
    if not tx.execute(_DELETE, {"tenant": tenant, "id": schedule_id}).rowcount:
        raise rows.not_found(tx, tenant, schedule_id)


_ENABLE = """
UPDATE schedules SET enabled = :enabled, next_scheduled_at = :next_at, next_fire_at = :next_fire_at,
    updated_at = :now
WHERE tenant_id = :tenant AND id = :id AND enabled <> :enabled
"""


def pause(tx: Transaction, tenant: str, schedule_id: str) -> None:
    """Let nothing start until `resume`. The runs that have started go on.

    Raises:
        NotFound: the tenant has no such schedule.
    """
    _enable(tx, rows.lock_existing(tx, tenant, schedule_id), is_enabled=False)


def resume(tx: Transaction, tenant: str, schedule_id: str) -> None:
    """End a pause. The due times during the pause were not missed: the next one is the first after now.

    Raises:
        NotFound: the tenant has no such schedule.
    """
    _enable(tx, rows.lock_existing(tx, tenant, schedule_id), is_enabled=True)


def _enable(tx: Transaction, schedule: ScheduleRow, *, is_enabled: bool) -> None:
    next_at = None if schedule.is_withdrawn else schedule.timetable.after(tx.now)
    parameters = {
        "tenant": schedule.tenant,
        "id": schedule.id,
        "enabled": is_enabled,
        "next_at": next_at,
        "next_fire_at": schedule.with_jitter(next_at),
        "now": tx.now,
    }
    tx.execute(_ENABLE, parameters)
