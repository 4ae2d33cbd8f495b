"""Endpoints of pipelines: store and show versions, plan runs, start runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from pipeweave.api.contract.pipeline_answers import (
    CheckedPipeline,
    DryRunAnswer,
    StoredAnswer,
    TriggerAnswer,
    TriggerBatchAnswer,
)
from pipeweave.api.contract.query_parameters import GridQuery, PageQuery, PipelinesQuery, VersionQuery
from pipeweave.api.contract.requests import (
    MAX_TOKEN,
    PLACE_CHARS,
    DryRunRequest,
    PipelineDocument,
    PromoteRequest,
    RollbackRequest,
    TriggerBatchRequest,
    TriggerRequest,
)
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.api.routes import input_checks, triggering
from pipeweave.errors import (
    Conflict,
    FieldError,
    InvalidInput,
    InvalidSpec,
    NotFound,
    PipelineUnsigned,
    UploadNotUsable,
)
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.pipelines import (
    CurrentVersion,
    GridAnswer,
    PipelineAnswer,
    PipelineList,
    VersionList,
)
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.registry import TaskRow, current_version, pipelines, task_rows
from pipeweave.orchestrator.security import READ, WRITE
from pipeweave.orchestrator.starts.schedules import declaring, firing
from pipeweave.orchestrator.store import Transaction
from pipeweave.spec import (
    ChildPipeline,
    DeclaredSchedule,
    PipelineSpec,
    parse_spec,
    time_limits,
    timetable,
)
from pipeweave.spec import dry_run as plan_of
from pipeweave.spec.checked_document import checked_document, parse_unstored
from pipeweave.spec.forecast import forecast

routes = Routes("pipelines")
SHOWN_TIMES = 5
# Pipelines that come with their newest runs, at most: each costs a statement.
MOST_WITH_RUNS = 50
PIPELINE = {"id": PathId(None, "The pipeline's id.")}

_EXAMPLE = {
    "steps": [
        {"task": "list_files", "params": {"folder": "${input.folder}"}},
        {"task": "count", "map": {"over": "${steps.list_files}", "as": "path"}},
        {"task": "report", "params": {"rows": "${steps.count}"}},
    ]
}


@routes.add("GET", "/api/pipelines", "List the pipelines", query=PipelinesQuery, answer=PipelineList)
def list_pipelines(call: Call, query: PipelinesQuery) -> dict[str, Any]:
    """Pipelines in their current versions, in the order of their ids."""
    if query.recent and query.limit > MOST_WITH_RUNS:
        message = f"must be {MOST_WITH_RUNS} at most with recent"
        raise InvalidInput(f"limit {message}", errors=[FieldError("limit", message, "out_of_range")])
    with call.reading() as tx:
        page = reading.pipeline_list(tx, call.tenant, query.page(), recent=query.recent)
        return query.named("pipelines", page)


@routes.add(
    "GET",
    "/api/pipelines/{id}",
    "Show a pipeline",
    ids=PIPELINE,
    query=VersionQuery,
    answer=PipelineAnswer,
    errors=(NotFound,),
)
def get_pipeline(call: Call, id: str, query: VersionQuery) -> dict[str, Any]:
    """The current or the given version of a pipeline, with the spec as it is stored."""
    with call.reading() as tx:
        return {"pipeline": reading.pipeline(tx, call.tenant, id, query.version)}


@routes.add(
    "PUT",
    "/api/pipelines/{id}",
    "Store a pipeline",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=PipelineDocument,
    answers={
        200: (StoredAnswer, "The newest version is the same; nothing was stored."),
        201: (StoredAnswer, "A new version was stored."),
    },
    errors=(InvalidSpec, PipelineUnsigned),
    example=_EXAMPLE,
)
def put_pipeline(call: Call, id: str, body: PipelineDocument) -> Answer:
    """Store a document as the pipeline's next version. Runs keep the version they started with, and triggers
    that which was promoted, if one was.

    Its `schedule` is stored as the schedule with the pipeline's id, unless somebody has stored another one
    there. Without it, the one that an earlier document declared starts nothing any more.

    An invalid document is not stored: `errors` names every wrong field, `graphErrors` the steps of each error
    in the graph. `warnings` lists the steps whose task may take longer than the run, and those that run a
    pipeline which is not stored.
    """
    spec = parse_spec(body.root, id=id)

    def store(tx: Transaction) -> tuple[pipelines.StoredVersion, list[dict[str, Any]]]:
        declaring.hold(tx, call.tenant, {spec.id})
        stored = pipelines.store(tx, call.tenant, spec, source="api")
        declaring.declare(tx, call.tenant, spec, source="api")
        tasks = task_rows.tasks(tx, call.tenant, spec.tasks)
        children = pipelines.children_of(tx, call.tenant, spec)
        return stored, _time_warnings(call, spec, tasks) + _child_warnings(tx, call, spec, children)

    firing.run_due(call.deployment.database, call.deployment.values, call.tenant, {spec.id})
    stored, warnings = call.change(store)
    shown = {
        "pipelineId": stored.pipeline_id,
        "version": stored.version,
        "specHash": stored.spec_hash,
        "isNew": stored.is_new,
        "warnings": warnings,
    }
    return Answer(shown, 201 if stored.is_new else 200)


@routes.add(
    "GET",
    "/api/pipelines/{id}/versions",
    "List a pipeline's versions",
    ids=PIPELINE,
    query=PageQuery,
    answer=VersionList,
    errors=(NotFound,),
)
def list_versions(call: Call, id: str, query: PageQuery) -> dict[str, Any]:
    """The versions of a pipeline, newest first."""
    with call.reading() as tx:
        return query.named("versions", reading.pipeline_versions(tx, call.tenant, id, query.page()))


@routes.add(
    "POST",
    "/api/pipelines/{id}/promote",
    "Promote a version of a pipeline",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=PromoteRequest,
    answer=CurrentVersion,
    errors=(NotFound, Conflict),
    example={"version": 3, "reason": "the newest one is too slow"},
)
def promote(call: Call, id: str, body: PromoteRequest) -> dict[str, Any]:
    """Make a version the current one: what starts runs takes it, also when code or a document brings newer
    versions. `version` null follows the newest one again. Runs keep the version they started with.

    A version of which a task is not registered is refused.
    """

    def verb(tx: Transaction) -> Any:
        return current_version.promote(
            tx, call.tenant, id, body.version, expected=body.expected_version, by=call.token_name or None
        )

    return CurrentVersion.of(call.change(verb))


@routes.add(
    "POST",
    "/api/pipelines/{id}/rollback",
    "Go back to the version before",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=RollbackRequest,
    is_body_optional=True,
    answer=CurrentVersion,
    errors=(NotFound, Conflict),
    example={"expectedVersion": 4, "reason": "the newest one is too slow"},
)
def roll_back(call: Call, id: str, body: RollbackRequest) -> dict[str, Any]:
    """Promote the version that was current before: `previousVersion`, or without one the version before the
    current one. A second rollback comes back again; `expectedVersion` keeps two people from undoing each
    other.
    """

    def verb(tx: Transaction) -> Any:
        return current_version.roll_back(
            tx, call.tenant, id, expected=body.expected_version, by=call.token_name or None
        )

    return CurrentVersion.of(call.change(verb))


@routes.add(
    "GET",
    "/api/pipelines/{id}/grid",
    "Show a pipeline's runs by its steps",
    ids=PIPELINE,
    query=GridQuery,
    answer=GridAnswer,
    errors=(NotFound,),
)
def get_grid(call: Call, id: str, query: GridQuery) -> dict[str, Any]:
    """A window of the pipeline's runs, newest first, and for each of its steps the status, attempt and
    duration in each of them. `before` and `after` move it along the runs, `fromStep` along the steps.
    """
    with call.reading() as tx:
        return reading.grid(tx, call.tenant, id, query.window())


@routes.add(
    "POST",
    "/api/pipelines/validate",
    "Check a pipeline",
    scopes=(READ,),
    body=PipelineDocument,
    answer=CheckedPipeline,
    example={"id": "report", **_EXAMPLE},
)
def validate(call: Call, body: PipelineDocument) -> dict[str, Any]:
    """Check a document without storing it: all mistakes at once, each with its field, the place in an
    expression and the nearest right name; else the document as it would be stored. `id` may be absent.
    """
    try:
        spec = parse_unstored(body.root)
    except InvalidSpec as error:
        return checked_document([each.to_json() for each in error.errors])
    with call.reading() as tx:
        tasks = task_rows.tasks(tx, call.tenant, spec.tasks)
        parameters = pipelines.task_parameters(tx, call.tenant, spec)
        unknown = pipelines.unknown_steps(tx, call.tenant, spec, parameters)
        children = pipelines.children_of(tx, call.tenant, spec)
        warnings = _child_warnings(tx, call, spec, children)
    wrong = [each.as_field_error() for each in unknown]
    wrong += [each.as_field_error() for each in pipelines.param_errors(spec, parameters, children)]
    warnings += [each.to_json() for each in plan_of(spec, tasks).warnings] + _time_warnings(call, spec, tasks)
    return checked_document([each.to_json() for each in wrong], warnings, spec)


@routes.add(
    "POST",
    "/api/pipelines/{id}/trigger",
    "Start a run",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=TriggerRequest,
    answer=TriggerAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
    links=dict.fromkeys(
        ("runs.get_run", "runs.list_task_runs", "runs.list_events", "runs.cancel"), "/pipelineRunId"
    ),
    longest_key=MAX_TOKEN,
    example={"input": {"folder": "/srv/data"}, "validationMode": "strict"},
)
def trigger(call: Call, id: str, body: TriggerRequest) -> dict[str, Any]:
    """Start a run of the current version, or of the one in `version`. The answer comes when the run is
    durable, not when it has ended.

    The input is checked against the pipeline's `inputSchema`, which the signature of a `@pipeline` function
    gives, and against the input schema of every entry task. Without a `validationMode`, errors of the former
    refuse the run and errors of the latter are listed in `validationWarnings`. `strict` refuses the run for
    both, `warn` lists both, `none` does not check.

    With a `runToken` (or the header Idempotency-Key) that was used before with this pipeline and input, no
    run is started: the answer shows the first run in its present state, with `created` false. With another
    input, the same token starts another run.

    If the pipeline limits its runs (`concurrency`) and the key of this one has no room, the run is `pending`
    until its turn comes. Where it says `skip`, no run is started: the answer shows the open run of the key,
    with `created` false and `skipped` true.
    """
    return triggering.start(call, id, body)


@routes.add(
    "POST",
    "/api/pipelines/{id}/trigger/batch",
    "Start several runs",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=TriggerBatchRequest,
    answer=TriggerBatchAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
    links=dict.fromkeys(("runs.get_run", "runs.cancel"), "/runs/0/pipelineRunId"),
    longest_key=MAX_TOKEN - PLACE_CHARS,
    example={"runs": [{"input": {"folder": "/srv/data"}}, {"input": {"folder": "/home"}, "priority": 50}]},
)
def trigger_batch(call: Call, id: str, body: TriggerBatchRequest) -> dict[str, Any]:
    """Start several runs in one transaction: all of them, or none if one is invalid. Each run costs a
    fraction of a run that is started alone.

    The answer has one entry for each run, in the order of the request. `validationMode` applies to all runs.
    The fields of an error name the run, e.g. `runs[3].input.folder`.

    With the header Idempotency-Key, an entry without a `runToken` gets the header's key and its own index:
    `key[0]`, `key[1]` and so on.
    """
    return {"runs": triggering.start_all(call, id, body)}


@routes.add(
    "POST",
    "/api/pipelines/{id}/dry-run",
    "Plan a run without starting it",
    ids=PIPELINE,
    body=DryRunRequest,
    is_body_optional=True,
    answer=DryRunAnswer,
    errors=(NotFound,),
    scopes=(READ,),
    example={"input": {"folder": "/srv/data"}},
)
def dry_run(call: Call, id: str, body: DryRunRequest) -> dict[str, Any]:
    """The plan of a run: levels, parallel steps, joins with the steps they wait for, warnings. Nothing is
    stored or started.

    With `spec`, the document in the body is planned instead of the stored version, and its errors are in the
    answer. `schedule` says when its runs would begin by themselves. `forecast` says how long each step and
    the run will probably take, and which steps decide that. With `input`, `validationErrors` lists the errors
    that the input schemas of the pipeline and of its entry tasks find in it.
    """
    with call.reading() as tx:
        if body.spec is None:
            with triggering.known_pipeline(tx, call.tenant, id):
                stored = pipelines.get(tx, call.tenant, id)
            spec = stored.spec
            schedule = declaring.declared(tx, call.tenant, id, stored.version)
        else:
            try:
                spec = parse_spec(body.spec, id=id)
            except InvalidSpec as error:
                return _invalid(error)
            schedule = spec.schedule
        tasks = task_rows.tasks(tx, call.tenant, spec.tasks)
        known = {name: row for name, row in tasks.items() if row.orphaned_at is None}
        names = pipelines.names_of_tasks(tx, call.tenant, spec, known)
        answer = plan_of(spec, known, names).to_json()
        parameters = pipelines.task_parameters(tx, call.tenant, spec)
        children = pipelines.children_of(tx, call.tenant, spec)
        wrong = pipelines.param_errors(spec, parameters, children)
        answer["errors"] += [each.as_graph_error().to_json() for each in wrong]
        answer["valid"] = answer["valid"] and not wrong
        answer["warnings"] += _time_warnings(call, spec, known)
        answer["warnings"] += _child_warnings(tx, call, spec, children)
        if answer["valid"]:
            past = reading.past_runs(tx, call.tenant, spec)
            answer["forecast"] = forecast(spec, past).to_json()
        if schedule is not None:
            answer["schedule"] = _planned(schedule, tx.now)
        if "input" in body.model_fields_set:
            answer["validationErrors"] = input_checks.faults_of(spec, tasks, body.input).to_json()
        return answer


def _time_warnings(call: Call, spec: PipelineSpec, tasks: Mapping[str, TaskRow]) -> list[dict[str, Any]]:
    """A warning for each step whose task may take longer than the run."""
    seconds = {task_id: task.timeout_seconds for task_id, task in tasks.items()}
    limit = call.deployment.settings.max_execution_timeout
    return [each.to_json() for each in time_limits.beyond_run(spec, seconds, limit)]


def _child_warnings(
    tx: Transaction, call: Call, spec: PipelineSpec, known: Collection[ChildPipeline]
) -> list[dict[str, Any]]:
    """A warning for each place that runs a pipeline which is not stored.

    Args:
        known: of those that it runs, those that are stored.
    """
    return [each.to_json() for each in pipelines.unknown_children(tx, call.tenant, spec, known)]


def _planned(schedule: DeclaredSchedule, now: datetime) -> dict[str, Any]:
    times = timetable.first_times(schedule.times(now), now, SHOWN_TIMES)
    text = None if schedule.cron is None else timetable.in_words(schedule.cron)
    return {"nextFires": [iso(each) for each in times], "text": text}


def _invalid(error: InvalidSpec) -> dict[str, Any]:
    """The answer of a dry run for a document that is not a valid pipeline."""
    graph_errors = error.context.get("graphErrors") or [
        {
            "code": fault.code.upper(),
            "message": f"{fault.field}: {fault.message}" if fault.field else fault.message,
            "steps": [],
        }
        for fault in error.errors
    ]
    return {"valid": False, "errors": graph_errors, "warnings": [], "executionPlan": []}
