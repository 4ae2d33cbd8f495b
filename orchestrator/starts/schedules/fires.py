"""Writes fires: starts the runs of due times, and notes what became of each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.triggered_by import SCHEDULE, TriggeredBy
from pipeweave.orchestrator.runs.triggering import CreatedRun, StartRequest
from pipeweave.orchestrator.starts import failures, new_runs
from pipeweave.orchestrator.starts.schedules.decision import DueFire
from pipeweave.orchestrator.starts.schedules.row import ScheduleRow
from pipeweave.orchestrator.store.database import Transaction, to_json
from pipeweave.orchestrator.store.values import Values


def start_runs(
    tx: Transaction,
    values: Values,
    schedule: ScheduleRow,
    times: Iterable[datetime],
    actor: str | None = None,
    *,
    token: str | None = None,
) -> dict[datetime, CreatedRun]:
    """Start a run for each of these due times.

    Args:
        actor: who starts them by hand.
        token: the run token of the only time, instead of one made of the schedule and the time.

    Raises:
        PipeWeaveError: as `new_runs.start`. No run was started.
    """
    # In the order of their times, which is that of their tokens (lock order).
    ordered = sorted(times)
    requests = [request(schedule, each, actor, token) for each in ordered]
    return dict(zip(ordered, new_runs.start(tx, values, schedule.tenant, requests), strict=True))


def request(
    schedule: ScheduleRow, scheduled_at: datetime, actor: str | None = None, token: str | None = None
) -> StartRequest:
    """The run of a due time. Its run token names the schedule and the time, so that a second start gives the
    first run; see `start_runs`.
    """
    # Microseconds: two starts by hand may be of the same millisecond.
    token = token or f"schedule:{schedule.id}:{scheduled_at.isoformat()}"
    metadata = {"scheduleId": schedule.id, "scheduledAt": iso(scheduled_at)}
    input = {} if schedule.input is None else schedule.input
    by = TriggeredBy(SCHEDULE, schedule.id, actor)
    return StartRequest(schedule.pipeline_id, input, metadata=metadata, run_token=token, triggered_by=by)


_EXISTING = """
SELECT scheduled_at FROM schedule_fires
WHERE tenant_id = :tenant AND schedule_id = :id AND scheduled_at = ANY(CAST(:times AS timestamptz[]))
"""


def existing(tx: Transaction, schedule: ScheduleRow, times: Iterable[datetime]) -> set[datetime]:
    """Those of the times that something was decided about before."""
    parameters = {"tenant": schedule.tenant, "id": schedule.id, "times": list(times)}
    return set(tx.execute(_EXISTING, parameters).scalars())


_TIME_OF = """
SELECT scheduled_at FROM schedule_fires
WHERE tenant_id = :tenant AND schedule_id = :id AND run_id = :run_id ORDER BY scheduled_at LIMIT 1
"""


def time_of(tx: Transaction, schedule: ScheduleRow, run_id: UUID) -> datetime | None:
    """The time of a run in the list of fires; None when it is not there any more."""
    key = {"tenant": schedule.tenant, "id": schedule.id, "run_id": run_id}
    due_time: datetime | None = tx.execute(_TIME_OF, key).scalar_one_or_none()
    return due_time


_WRITE = """
INSERT INTO schedule_fires (tenant_id, schedule_id, scheduled_at, fired_at, kind, outcome, reason,
    error_code, error, run_id, is_open)
SELECT :tenant, :id, f.scheduled_at, :now, :kind, f.outcome, f.reason, f.error_code, f.error, f.run_id,
    f.run_id IS NOT NULL
FROM jsonb_to_recordset(CAST(:fires AS jsonb)) AS f(scheduled_at timestamptz, outcome text, reason text,
    error_code text, error text, run_id uuid)
"""


def write(
    tx: Transaction,
    schedule: ScheduleRow,
    fires: Iterable[DueFire],
    runs: Mapping[datetime, CreatedRun],
    *,
    kind: str,
    failure: PipeWeaveError | None = None,
) -> None:
    """Note what became of these times.

    Args:
        runs: the run of each time that fired.
        failure: why the times that should fire could not.
    """
    rows = [_shape(each, runs, failure) for each in fires]
    if rows:
        key = {"tenant": schedule.tenant, "id": schedule.id, "now": tx.now, "kind": kind}
        tx.execute(_WRITE, {**key, "fires": to_json(rows)})


def _shape(
    fire: DueFire, runs: Mapping[datetime, CreatedRun], failure: PipeWeaveError | None
) -> dict[str, Any]:
    noted: dict[str, Any] = {
        "scheduled_at": fire.scheduled_at.isoformat(),
        "outcome": fire.outcome,
        "reason": fire.reason,
    }
    if fire.outcome != "fired":
        return noted
    if failure is not None:
        return noted | {"outcome": "failed"} | failures.columns(failure)
    return noted | {"run_id": str(runs[fire.scheduled_at].id)}


# A run that ended, or whose history was dropped, does not overlap any more.
_CLOSE = """
UPDATE schedule_fires AS f SET is_open = false
WHERE f.tenant_id = :tenant AND f.schedule_id = :id AND f.is_open
  AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.id = f.run_id AND r.finished_at IS NULL)
"""
_STATE = """
SELECT EXISTS (SELECT 1 FROM schedule_fires
               WHERE tenant_id = :tenant AND schedule_id = :id AND is_open) AS has_open_run,
       EXISTS (SELECT 1 FROM schedule_fires
               WHERE tenant_id = :tenant AND schedule_id = :id AND outcome = 'waiting') AS has_waiting
"""


def overlap(tx: Transaction, schedule: ScheduleRow) -> tuple[bool, bool]:
    """Whether a run of the schedule is open, and whether a due time waits for its end. The schedule's row is
    locked.
    """
    if schedule.rules.overlap == "allow":
        return False, False
    key = {"tenant": schedule.tenant, "id": schedule.id}
    tx.execute(_CLOSE, key)
    state = tx.execute(_STATE, key).one()
    return state.has_open_run, state.has_waiting


_SUPERSEDE = """
UPDATE schedule_fires SET is_superseded = true WHERE tenant_id = :tenant AND schedule_id = :id AND is_open
"""


def supersede(tx: Transaction, schedule: ScheduleRow) -> None:
    """Mark the open runs of a schedule: the tick cancels them after the newer run has been stored."""
    tx.execute(_SUPERSEDE, {"tenant": schedule.tenant, "id": schedule.id})
