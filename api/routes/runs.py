"""Endpoints of runs and task runs: list and show them, their events and logs, cancel them, say why one
waits.
"""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_camel

from pipeweave import ids
from pipeweave.api.contract.query_parameters import (
    ChildRunsQuery,
    EventsQuery,
    FindTaskRunsQuery,
    RunCountsQuery,
    RunQuery,
    RunsQuery,
    SearchQuery,
    TaskRunsQuery,
    ValuesQuery,
)
from pipeweave.api.contract.requests import CancelRequest, CancelRunRequest
from pipeweave.api.contract.run_changes import PauseRunRequest, ResumeRunRequest, RunChangesRequest
from pipeweave.api.contract.step_states import StepStatesQuery
from pipeweave.api.contract.storage import LogsQuery, TaskRunLogs
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound, Unavailable
from pipeweave.orchestrator import kept, reading
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.documents.operations import ChangedRuns
from pipeweave.orchestrator.documents.run_questions import WhyAnswer
from pipeweave.orchestrator.documents.run_state import RunState, StepStates
from pipeweave.orchestrator.documents.runs import (
    ChildRunList,
    EventList,
    PausedRun,
    RunCounts,
    RunDetail,
    RunList,
)
from pipeweave.orchestrator.documents.search import SearchAnswer
from pipeweave.orchestrator.documents.task_runs import FoundTaskRuns, TaskRunDetail, TaskRunList
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.runs import bulk, pausing, triggering
from pipeweave.orchestrator.security import WRITE

routes = Routes("runs")
RUN = {"id": PathId(ids.RUN, "The run's id.")}
AS_USUAL = RunQuery.model_validate({})
# The most task runs that the beginning of an id finds: it is for people who type one.
MOST_BY_PREFIX = 100
TASK_RUN = {"id": PathId(ids.TASK_RUN, "The task run's id.")}


@routes.add("GET", "/api/runs", "List the runs", query=RunsQuery, answer=RunList)
def list_runs(call: Call, query: RunsQuery) -> dict[str, Any]:
    """Runs of pipelines, newest first. Standalone tasks are not in this list.

    `text`, `meta`, `version`, `minMs` and `taskId` have no index: the newest runs that the other filters
    leave are looked through for 0.3 s, and 20,000 runs, at most. `scanned` says how many were. If the look
    ended before a page was full, `scannedTo` says how far back it came, and `nextCursor` goes on there.
    """
    with call.reading() as tx:
        page = reading.run_list(tx, call.tenant, query.page(), query.run_filter())
        if not page["items"] and query.cursor is None:
            unknown_names.require(tx, call.tenant, "pipeline", *query.pipeline_id)
    return query.named("runs", page) | {name: page[name] for name in ("scanned", "scannedTo")}


@routes.add("GET", "/api/runs/counts", "Count the runs by status", query=RunCountsQuery, answer=RunCounts)
def count_runs(call: Call, query: RunCountsQuery) -> dict[str, Any]:
    """How many runs of the list have each status. What it costs is bounded: the newest 1,000 of the list and
    the newest 1,000 of each status are looked at, so there may be more of those in `atLeast`.
    """
    with call.reading() as tx:
        return reading.run_counts(tx, call.tenant, query.counted())


@routes.add(
    "GET",
    "/api/runs/{id}",
    "Show a run",
    ids=RUN,
    query=RunQuery,
    answer=RunDetail,
    errors=(NotFound,),
)
def get_run(call: Call, id: str, query: RunQuery) -> dict[str, Any]:
    """One run with counts by status, the progress of each step, and the first 1,000 task runs, or fewer
    (`taskRuns`).
    """
    with call.reading() as tx:
        run_id = ids.read(ids.RUN, id)
        run = reading.run(tx, call.tenant, run_id, load=query.load, shown=query.task_runs)
        run["steps"] = reading.run_steps(tx, run_id, run)
    return kept.load_values(run, call.deployment.values)


@routes.add(
    "GET",
    "/api/runs/{id}/state",
    "Show the state of a run",
    ids=RUN,
    answer=RunState,
    errors=(NotFound,),
)
def get_state(call: Call, id: str) -> dict[str, Any]:
    """All that is known of a run, open or ended, in one document of one moment: each step with status,
    attempts, error and result, what failed, and the run's numbers.

    Its size is bounded. Maps are counts with their first failed items and the address of the others; results
    of more than 32 KiB, and all after the first 2 MB of them, are by reference.
    """
    with call.reading() as tx:
        return reading.run_state(tx, call.tenant, ids.read(ids.RUN, id))


@routes.add(
    "GET",
    "/api/runs/{id}/steps",
    "Show how far the steps of a run are",
    ids=RUN,
    query=StepStatesQuery,
    answer=StepStates,
    errors=(NotFound,),
)
def get_steps(call: Call, id: str, query: StepStatesQuery) -> dict[str, Any]:
    """Status, attempt and times of each step, as columns; with `after`, of those that have changed since.

    The items of maps are counts, and may be some seconds old: counting them takes at most 5 % of the time.
    """
    with call.reading() as tx:
        return reading.step_states(tx, call.tenant, ids.read(ids.RUN, id), query.after)


@routes.add(
    "GET",
    "/api/runs/{id}/task-runs",
    "List a run's task runs",
    ids=RUN,
    query=TaskRunsQuery,
    answer=TaskRunList,
    errors=(NotFound,),
)
def list_task_runs(call: Call, id: str, query: TaskRunsQuery) -> dict[str, Any]:
    """Task runs in the order of the pipeline's steps, then the items of maps by their index."""
    with call.reading() as tx:
        page = reading.run_task_runs(tx, call.tenant, ids.read(ids.RUN, id), query.page(), **query.filters())
        return query.named("taskRuns", page)


@routes.add(
    "GET",
    "/api/runs/{id}/children",
    "List a run's child runs",
    ids=RUN,
    query=ChildRunsQuery,
    answer=ChildRunList,
    errors=(NotFound,),
)
def list_children(call: Call, id: str, query: ChildRunsQuery) -> dict[str, Any]:
    """The runs that steps of this run have started, newest first."""
    run_id = ids.read(ids.RUN, id)
    step = None if query.task_run_id is None else ids.read(ids.TASK_RUN, query.task_run_id)
    with call.reading() as tx:
        reading.require_run(tx, call.tenant, run_id)
        chosen = kept.RunFilter(parent=run_id, parent_step=step)
        page = reading.run_list(tx, call.tenant, query.page(), chosen)
    return query.named("runs", page)


@routes.add(
    "GET",
    "/api/runs/{id}/events",
    "List a run's events",
    ids=RUN,
    query=EventsQuery,
    answer=EventList,
    errors=(NotFound,),
)
def list_events(call: Call, id: str, query: EventsQuery) -> dict[str, Any]:
    """The append-only history of a run, oldest event first."""
    with call.reading() as tx:
        page = reading.run_events(tx, call.tenant, ids.read(ids.RUN, id), query.page(), **query.filters())
        return query.named("events", page)


@routes.add(
    "POST",
    "/api/runs/{id}/cancel",
    "Cancel a run",
    scopes=(WRITE,),
    ids=RUN,
    body=CancelRunRequest,
    is_body_optional=True,
    answer=RunDetail,
    errors=(NotFound, Conflict),
    example={"reason": "wrong input"},
)
def cancel(call: Call, id: str, body: CancelRunRequest) -> dict[str, Any]:
    """End the steps of an open run now. Waiting task runs never start; late reports of running attempts
    change nothing. What its pipeline says about the end of a run follows, unless `now` is true or that is
    under way.
    """
    run_id, said = ids.read(ids.RUN, id), {"reason": body.reason, "by": call.token_name}
    call.change(lambda tx: triggering.cancel(tx, call.tenant, run_id, **said, now=body.now))
    return get_run(call, id, AS_USUAL)


@routes.add(
    "POST",
    "/api/runs/{id}/pause",
    "Pause a run",
    scopes=(WRITE,),
    ids=RUN,
    body=PauseRunRequest,
    is_body_optional=True,
    answer=PausedRun,
    errors=(NotFound, Conflict),
    example={"reason": "the bank is closed"},
)
def pause(call: Call, id: str, body: PauseRunRequest) -> dict[str, Any]:
    """Let what runs finish and start nothing of the run until it is resumed. The time of the pause does not
    count towards its time limit. To pause a paused run changes nothing.
    """
    run_id = ids.read(ids.RUN, id)
    changed = call.change(
        lambda tx: pausing.pause(tx, call.tenant, run_id, reason=body.reason, by=call.token_name)
    )
    return {**get_run(call, id, AS_USUAL), "isRepeated": not changed}


@routes.add(
    "POST",
    "/api/runs/{id}/resume",
    "Resume a run",
    scopes=(WRITE,),
    ids=RUN,
    body=ResumeRunRequest,
    is_body_optional=True,
    answer=PausedRun,
    errors=(NotFound, Conflict),
)
def resume(call: Call, id: str, body: ResumeRunRequest) -> dict[str, Any]:
    """Let a paused run go on. To resume a run that is not paused changes nothing."""
    run_id = ids.read(ids.RUN, id)
    changed = call.change(lambda tx: pausing.resume(tx, call.tenant, run_id, by=call.token_name))
    return {**get_run(call, id, AS_USUAL), "isRepeated": not changed}


@routes.add(
    "POST",
    "/api/runs/bulk",
    "Pause, resume or cancel many runs",
    scopes=(WRITE,),
    body=RunChangesRequest,
    answer=ChangedRuns,
    example={"action": "cancel", "filter": {"pipelineId": "nightly", "status": "pending"}, "dryRun": True},
)
def change_runs(call: Call, body: RunChangesRequest) -> dict[str, Any]:
    """Do an action to all runs that match all given filters and that it concerns, the oldest first, each in a
    transaction of its own. `isComplete` says whether more of them are left.
    """
    chosen = body.filter.filter()
    if chosen == bulk.RunsToChange():
        message = "needs a filter: every open run would be changed"
        raise InvalidInput(
            message,
            errors=[FieldError("filter", message, "required")],
            hint="set at least one filter, e.g. pipelineId or status",
        )
    done = bulk.change(
        call.deployment.database,
        call.tenant,
        body.action,
        chosen,
        limit=body.limit,
        reason=body.reason,
        by=call.token_name,
        is_dry_run=body.dry_run,
    )
    return ChangedRuns.of(done, is_dry_run=body.dry_run)


@routes.add("GET", "/api/task-runs", "List the task runs", query=FindTaskRunsQuery, answer=FoundTaskRuns)
def find_task_runs(call: Call, query: FindTaskRunsQuery) -> dict[str, Any]:
    """Task runs of all runs, and standalone ones, the newest run first. The newest ones are looked through
    for 0.3 s, and 20,000 of them, at most; `scanned`, `scannedTo` and `nextCursor` are as for runs.

    `idPrefix` finds them by the beginning of their ids.
    """
    if query.id_prefix is None:
        with call.reading() as tx:
            page = reading.task_run_list(tx, call.tenant, query.page(), query.chosen())
        return query.named("taskRuns", page) | {name: page[name] for name in ("scanned", "scannedTo")}
    _require_alone(query)
    with call.reading() as tx:
        listed = reading.find_task_runs(tx, call.tenant, query.id_prefix, query.limit)
    return {"taskRuns": listed, "nextCursor": None, "scanned": None, "scannedTo": None}


def _require_alone(query: FindTaskRunsQuery) -> None:
    """Refuse what cannot be asked together with the beginning of an id."""
    message = "cannot be given with idPrefix"
    others = query.model_fields_set - {"id_prefix", "limit"}
    errors = [FieldError(to_camel(each), message, "invalid") for each in sorted(others)]
    if query.limit > MOST_BY_PREFIX:
        errors.append(FieldError("limit", f"must be {MOST_BY_PREFIX} at most with idPrefix", "out_of_range"))
    if errors:
        raise InvalidInput(f"{errors[0].field} {errors[0].message}", errors=errors)


@routes.add("GET", "/api/search", "Search", query=SearchQuery, answer=SearchAnswer)
def search(call: Call, query: SearchQuery) -> dict[str, Any]:
    """At most 20 things: runs, task runs, dead letters and redrives by the beginning of their ids, pipelines,
    tasks, schedules, triggers and services by a part of their names.
    """
    with call.reading() as tx:
        return {"hits": reading.search(tx, call.tenant, query.q)}


@routes.add(
    "GET",
    "/api/task-runs/{id}",
    "Show a task run",
    ids=TASK_RUN,
    query=ValuesQuery,
    answer=TaskRunDetail,
    errors=(NotFound,),
)
def get_task_run(call: Call, id: str, query: ValuesQuery) -> dict[str, Any]:
    """One task run with its output, its error, and the attempts that ended badly."""
    with call.reading() as tx:
        task_run = reading.task_run(tx, call.tenant, ids.read(ids.TASK_RUN, id), load=query.load)
    return kept.load_values(task_run, call.deployment.values)


@routes.add(
    "POST",
    "/api/task-runs/{id}/cancel",
    "Cancel a standalone task",
    scopes=(WRITE,),
    ids=TASK_RUN,
    body=CancelRequest,
    is_body_optional=True,
    answer=TaskRunDetail,
    errors=(NotFound, Conflict),
    example={"reason": "wrong input"},
)
def cancel_task_run(call: Call, id: str, body: CancelRequest) -> dict[str, Any]:
    """End the open task run of a standalone task now. Answers 409 for a step of a pipeline: cancel its run
    instead.
    """
    task_run = ids.read(ids.TASK_RUN, id)
    by = call.token_name or None
    call.change(lambda tx: triggering.cancel_task(tx, call.tenant, task_run, reason=body.reason, by=by))
    return get_task_run(call, id, ValuesQuery(load=False))


@routes.add(
    "GET",
    "/api/task-runs/{id}/logs",
    "Read the log of a task run",
    ids=TASK_RUN,
    query=LogsQuery,
    answer=TaskRunLogs,
    errors=(NotFound, Unavailable),
)
def task_run_logs(call: Call, id: str, query: LogsQuery) -> dict[str, Any]:
    """The stored log of one attempt, also while it runs: at most 1 MB of lines, from `offset` on. An attempt
    that has logged nothing has no lines. With `find`, only the lines that have a text, with their numbers.
    """
    _require_one_part(query)
    values, secret_key = call.deployment.values, call.deployment.settings.secret_key
    with call.reading() as tx:
        task_run = ids.read(ids.TASK_RUN, id)
        place = kept.log_place(tx, call.tenant, task_run, query.attempt, values.backends, secret_key)
    if query.find is not None:
        return reading.find_in_log(values.backends, place, query.find)
    return kept.read_log(values.backends, place, offset=query.offset, tail=query.tail)


def _require_one_part(query: LogsQuery) -> None:
    parts = [name for name in ("offset", "tail", "find") if getattr(query, name) is not None]
    message = f"cannot be given with {parts[0]}" if parts else ""
    if faults := [FieldError(name, message, "invalid") for name in parts[1:]]:
        raise InvalidInput(f"{faults[0].field} {message}", errors=faults)


@routes.add(
    "GET",
    "/api/task-runs/{id}/why",
    "Say why a task run does not run yet",
    ids=TASK_RUN,
    answer=WhyAnswer,
    errors=(NotFound,),
)
def why_task_run(call: Call, id: str) -> dict[str, Any]:
    """The reasons, with numbers: predecessors, due times, pauses, limits, the queue, workers, services."""
    with call.reading() as tx:
        task_run = ids.read(ids.TASK_RUN, id)
        is_serverless = call.deployment.settings.mode == "serverless"
        oldest = call.deployment.publisher.oldest
        return why.why(tx, call.tenant, task_run, oldest, is_serverless=is_serverless)
