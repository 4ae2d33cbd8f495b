"""Endpoints of schedules: store, show and delete them, pause and start them, start the runs of the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeweave.api.contract.requests import MAX_TOKEN
from pipeweave.api.contract.schedules import (
    BackfillRequest,
    CalendarQuery,
    SchedulePreviewRequest,
    ScheduleRequest,
    SchedulesQuery,
    ScheduleVerbRequest,
)
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound, UploadNotUsable
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.schedules import (
    BackfillAnswer,
    DeletedSchedule,
    ScheduleCalendar,
    ScheduleDetail,
    ScheduleList,
    SchedulePreview,
    ScheduleStarted,
)
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.orchestrator.starts.schedules import by_hand, storing
from pipeweave.spec import timetable

routes = Routes("schedules")
SCHEDULE = {"id": PathId(None, "The schedule's id.")}
PREVIEWED = 5
# Schedules that come with their last fires, at most: each costs a look-up.
MOST_WITH_FIRES = 100

_VERB: dict[str, Any] = {
    "scopes": (WRITE,),
    "ids": SCHEDULE,
    "body": ScheduleVerbRequest,
    "is_body_optional": True,
    "example": {},
}


@routes.add("GET", "/api/schedules", "List the schedules", query=SchedulesQuery, answer=ScheduleList)
def list_schedules(call: Call, query: SchedulesQuery) -> dict[str, Any]:
    """Schedules in the order of their ids, without those that their code or document declares no more."""
    if query.recent and query.limit > MOST_WITH_FIRES:
        message = f"must be {MOST_WITH_FIRES} at most with recent"
        raise InvalidInput(f"limit {message}", errors=[FieldError("limit", message, "out_of_range")])
    with call.reading() as tx:
        page = reading.schedules(
            tx,
            call.tenant,
            query.page(),
            pipeline_id=query.pipeline_id,
            state=query.state,
            recent=query.recent,
        )
        if not page["items"] and query.cursor is None and query.pipeline_id is not None:
            unknown_names.require(tx, call.tenant, "pipeline", query.pipeline_id)
        return query.named("schedules", page)


@routes.add(
    "GET",
    "/api/schedule-calendar",
    "Show the times of all schedules",
    query=CalendarQuery,
    answer=ScheduleCalendar,
)
def calendar(call: Call, query: CalendarQuery) -> dict[str, Any]:
    """What the schedules did in a stretch of time, and when they are due in it. Schedules that are due very
    often are named, and their times are not listed.
    """
    with call.reading() as tx:
        begin, end = query.window(tx.now)
        return reading.schedule_calendar(tx, call.tenant, begin, end, pipeline_id=query.pipeline_id)


@routes.add(
    "POST",
    "/api/schedules/preview",
    "Show when a schedule would be due",
    scopes=(READ,),
    body=SchedulePreviewRequest,
    answer=SchedulePreview,
    example={"cron": "30 2 * * MON-FRI", "timeZone": "Europe/Berlin"},
)
def preview(call: Call, body: SchedulePreviewRequest) -> dict[str, Any]:
    """The next five due times, and what a cron line says in words. Nothing is stored."""
    now = call.deployment.database.now()
    times = timetable.first_times(body.timetable(now), now, PREVIEWED)
    text = None if body.cron is None else timetable.in_words(body.cron)
    return SchedulePreview.of(next_fires=times, text=text)


@routes.add(
    "GET",
    "/api/schedules/{id}",
    "Show a schedule",
    ids=SCHEDULE,
    answer=ScheduleDetail,
    errors=(NotFound,),
)
def get_schedule(call: Call, id: str) -> dict[str, Any]:
    """One schedule with its next five due times and its last twenty fires."""
    with call.reading() as tx:
        return reading.schedule(tx, call.tenant, id)


@routes.add(
    "PUT",
    "/api/schedules/{id}",
    "Store a schedule",
    scopes=(WRITE,),
    ids=SCHEDULE,
    body=ScheduleRequest,
    answers={
        200: (ScheduleDetail, "The schedule was changed."),
        201: (ScheduleDetail, "The schedule is new."),
    },
    errors=(NotFound,),
    example={"pipelineId": "files", "cron": "*/5 * * * *", "input": {"folder": "/srv/data"}},
)
def put_schedule(call: Call, id: str, body: ScheduleRequest) -> Answer:
    """Store a schedule, or replace all of it. If its times stay the same, its next due time does, too.

    One of `cron`, `everyMs` and `at` is given. A schedule that came with a pipeline's code or document
    belongs to whoever called this: the code does not change it any more.
    """
    is_new = call.change(lambda tx: storing.put(tx, call.tenant, id, body.spec(), source=body.source))
    return Answer(get_schedule(call, id), 201 if is_new else 200)


@routes.add(
    "DELETE",
    "/api/schedules/{id}",
    "Delete a schedule",
    scopes=(WRITE,),
    ids=SCHEDULE,
    answer=DeletedSchedule,
    errors=(NotFound,),
)
def delete_schedule(call: Call, id: str) -> dict[str, Any]:
    """Delete a schedule and the list of its fires. Runs that it started go on."""
    call.change(lambda tx: storing.delete(tx, call.tenant, id))
    return DeletedSchedule.of(id=id, deleted=True)


@routes.add(
    "POST",
    "/api/schedules/{id}/pause",
    "Pause a schedule",
    answer=ScheduleDetail,
    errors=(NotFound,),
    **_VERB,
)
def pause(call: Call, id: str, body: ScheduleVerbRequest) -> dict[str, Any]:
    """Start nothing until it is resumed. Changes nothing if it is paused already."""
    return _changed(call, id, storing.pause)


@routes.add(
    "POST",
    "/api/schedules/{id}/resume",
    "Resume a schedule",
    answer=ScheduleDetail,
    errors=(NotFound,),
    **_VERB,
)
def resume(call: Call, id: str, body: ScheduleVerbRequest) -> dict[str, Any]:
    """End a pause. The times during the pause are not made up for; a backfill does that."""
    return _changed(call, id, storing.resume)


def _changed(call: Call, id: str, verb: Callable[..., None]) -> dict[str, Any]:
    call.change(lambda tx: verb(tx, call.tenant, id))
    return get_schedule(call, id)


@routes.add(
    "POST",
    "/api/schedules/{id}/fire",
    "Start a schedule now",
    answer=ScheduleStarted,
    errors=(NotFound, Conflict, UploadNotUsable),
    links=dict.fromkeys(("runs.get_run", "runs.cancel"), "/pipelineRunId"),
    longest_key=MAX_TOKEN,
    **_VERB,
)
def fire(call: Call, id: str, body: ScheduleVerbRequest) -> dict[str, Any]:
    """Start a run with the schedule's input at once, also while it is paused or a run of it is open. Its next
    due time stays.

    With the header Idempotency-Key, a second request with the same key and the same input of the schedule
    starts nothing: the answer shows the first run, with `created` false.
    """
    at, run = call.change(
        lambda tx: by_hand.fire_now(
            tx, call.deployment.values, call.tenant, id, actor=call.token_name, key=call.key
        )
    )
    return ScheduleStarted.of(run, schedule_id=id, scheduled_at=at, pipeline_run_id=run.id)


@routes.add(
    "POST",
    "/api/schedules/{id}/backfill",
    "Start the runs of times that have passed",
    scopes=(WRITE,),
    ids=SCHEDULE,
    body=BackfillRequest,
    answer=BackfillAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
    example={"from": "2026-11-01T00:00:00Z", "to": "2026-11-08T00:00:00Z", "dryRun": True},
)
def backfill(call: Call, id: str, body: BackfillRequest) -> dict[str, Any]:
    """Start a run for each due time from `from` until just before `to` that nothing was decided about: a
    second request starts nothing twice. At most 1,000 with one request; `nextFrom` says where to go on.

    A pause, the schedule's own start and end, and its overlap policy do not count here; a limit of active
    runs does.
    """
    done = by_hand.backfill(
        call.deployment.database,
        call.deployment.values,
        call.tenant,
        id,
        body.begin,
        body.end,
        limit=body.limit,
        is_dry=body.dry_run,
        actor=call.token_name,
    )
    runs = [run.id for _, run in sorted(done.runs.items())]
    return BackfillAnswer.of(done, created=len(runs), run_ids=runs)
