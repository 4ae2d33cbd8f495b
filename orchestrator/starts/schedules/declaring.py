"""Stores the schedules that pipelines declare, in the transaction that stores the pipelines.

The id is the pipeline's. Each start of a worker declares again, and while a deploy goes on, two versions of
the code take turns. So a declaration that changes nothing writes nothing. Before one that changes the times,
`firing.run_due` starts what is due; a due time that comes in between stays the next one. So at each moment
the newest declaration decides, and no time of it starts twice, or not at all.
docs/decisions/0037 says whose a schedule is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from pipeweave.orchestrator.starts.schedules import row as rows
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.starts.schedules.row import COLUMNS, ScheduleRow
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec import DeclaredSchedule, PipelineSpec
from pipeweave.spec.timetable import Timetable

log = logging.getLogger(__name__)

# The source of a pipeline, and that of the schedule which it declares. A derived pipeline declares none.
_SOURCES = {"decorator": "code", "document": "document", "api": "document"}

WITHDRAWN = "not declared any more"

_HOLD = """
SELECT id FROM schedules WHERE tenant_id = :tenant AND id = ANY(CAST(:ids AS text[])) ORDER BY id FOR UPDATE
"""


def hold(tx: Transaction, tenant: str, pipeline_ids: Iterable[str]) -> None:
    """Lock what is stored for these pipelines, before the transaction writes to any other table: see
    store/lock_order.py.
    """
    tx.execute(_HOLD, {"tenant": tenant, "ids": sorted(pipeline_ids)}).all()
    tx.catch_up()


def declare(tx: Transaction, tenant: str, spec: PipelineSpec, *, source: str) -> None:
    """Store the schedule that a pipeline declares, or withdraw the one that it declares no more.

    A schedule that a person has stored stays as it is. So does a pause.

    Args:
        source: of the pipeline, as `pipelines.store` takes it.
    """
    mine = _SOURCES.get(source)
    if mine is None:
        return
    before = rows.lock(tx, tenant, spec.id)
    if spec.schedule is None:
        if before is not None and before.source == mine and not before.is_withdrawn:
            _withdraw(tx, before)
    elif before is not None and before.source not in _SOURCES.values():
        log.info("schedule.kept", extra={"tenant": tenant, "schedule": spec.id, "source": before.source})
    else:
        _store(tx, tenant, ScheduleSpec.declared(spec), mine, before)


def _store(tx: Transaction, tenant: str, spec: ScheduleSpec, source: str, before: ScheduleRow | None) -> None:
    timetable = spec.timetable(tx.now if before is None else before.created_at)
    if before is not None and before.source == source and _is_same(before, spec, timetable):
        return
    next_at = _next(before, timetable, tx.now)
    if next_at is None:
        log.warning("schedule.never_due", extra={"tenant": tenant, "schedule": spec.pipeline_id})
    is_enabled = not spec.paused if before is None else before.is_enabled
    storing.write(tx, tenant, spec.pipeline_id, spec, source, is_enabled, next_at)
    log.info("schedule.stored", extra={"tenant": tenant, "schedule": spec.pipeline_id, "source": source})


def _is_same(before: ScheduleRow, spec: ScheduleSpec, timetable: Timetable) -> bool:
    return not before.is_withdrawn and spec.is_stored_as(before, timetable)


def _next(before: ScheduleRow | None, timetable: Timetable, now: datetime) -> datetime | None:
    """The next due time: one that has come already stays, whatever the new times are."""
    if before is not None and before.is_enabled and not before.is_withdrawn:
        stored = before.next_scheduled_at
        if before.timetable == timetable or (stored is not None and stored <= now):
            return stored
    return timetable.after(now)


_WITHDRAW = """
UPDATE schedules SET withdrawn_at = :now, next_scheduled_at = NULL, next_fire_at = NULL,
    last_error_code = NULL, last_error = NULL, updated_at = :now
WHERE tenant_id = :tenant AND id = :id AND withdrawn_at IS NULL
"""
_SKIP_WAITING = """
UPDATE schedule_fires SET outcome = 'skipped', reason = :reason, fired_at = :now
WHERE tenant_id = :tenant AND schedule_id = :id AND outcome = 'waiting'
"""


def _withdraw(tx: Transaction, schedule: ScheduleRow) -> None:
    """Let nothing start any more. Its fires stay, as does a pause for the case that it comes back."""
    key = {"tenant": schedule.tenant, "id": schedule.id, "now": tx.now}
    tx.execute(_WITHDRAW, key)
    tx.execute(_SKIP_WAITING, {**key, "reason": WITHDRAWN})
    log.info("schedule.withdrawn", extra={"tenant": schedule.tenant, "schedule": schedule.id})


_DECLARED = f"""
SELECT {COLUMNS} FROM schedules AS s JOIN pipelines AS p ON p.tenant_id = s.tenant_id AND p.id = s.id
WHERE s.tenant_id = :tenant AND s.id = :id AND s.source IN ('code', 'document') AND s.withdrawn_at IS NULL
  AND p.latest_version = :version
"""


def declared(tx: Transaction, tenant: str, pipeline_id: str, version: int) -> DeclaredSchedule | None:
    """What the code or document of a pipeline declares; None if it declares nothing, if the schedule is a
    person's, or if this is not the newest version.
    """
    row = tx.execute(_DECLARED, {"tenant": tenant, "id": pipeline_id, "version": version}).one_or_none()
    if row is None:
        return None
    return DeclaredSchedule(
        row.cron,
        row.every_ms,
        row.at,
        row.time_zone,
        row.input,
        row.missed_policy,
        row.overlap_policy,
        row.jitter_ms,
        row.start_at,
        row.end_at,
    )
