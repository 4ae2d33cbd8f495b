"""Pipelines: store versions, look at them, plan them, start runs."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.pipeline_answers import (
    DryRunAnswer,
    PipelineAnswer,
    PipelineList,
    StoredAnswer,
    TriggerAnswer,
    TriggerBatchAnswer,
    VersionList,
)
from pipeweave.api.contract.query_parameters import PageQuery, VersionQuery
from pipeweave.api.contract.requests import (
    MAX_TOKEN,
    PLACE_CHARS,
    DryRunRequest,
    PipelineDocument,
    TriggerBatchRequest,
    TriggerRequest,
)
from pipeweave.api.http.endpoint import Answer, Call, PathId, Routes
from pipeweave.api.routes import input_checks, triggering
from pipeweave.errors import Conflict, InvalidSpec, NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import pipelines, services
from pipeweave.orchestrator.security.access_tokens import READ, WRITE
from pipeweave.spec.document import parse_spec
from pipeweave.spec.graph import dry_run as plan_of

routes = Routes("pipelines")
PIPELINE = {"id": PathId(None, "The pipeline's id.")}

_EXAMPLE = {
    "steps": [
        {"task": "list_files", "params": {"folder": "${input.folder}"}},
        {"task": "count", "map": {"over": "${steps.list_files}", "as": "path"}},
        {"task": "report", "params": {"rows": "${steps.count}"}},
    ]
}


@routes.add("GET", "/api/pipelines", "List the pipelines", query=PageQuery, answer=PipelineList)
def list_pipelines(call: Call, query: PageQuery) -> dict[str, Any]:
    """Each with its newest version, in the order of their ids."""
    with call.reading() as tx:
        return query.named("pipelines", reading.pipeline_list(tx, call.tenant, query.page()))


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
    """Its newest version, or the one asked for, with the spec as it is stored."""
    with call.reading() as tx:
        return {"pipeline": reading.pipeline(tx, call.tenant, id, query.version)}


@routes.add(
    "PUT",
    "/api/pipelines/{id}",
    "Store a pipeline",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=PipelineDocument,
    answers={200: (StoredAnswer, "The latest version says the same."), 201: (StoredAnswer, "A new version.")},
    errors=(InvalidSpec,),
    example=_EXAMPLE,
)
def put_pipeline(call: Call, id: str, body: PipelineDocument) -> Answer:
    """Store a document as the pipeline's next version. Runs keep the version they started with.

    A document that is wrong stores nothing; `errors` names every wrong field, `graphErrors` the steps of each
    mistake in the graph.
    """
    spec = parse_spec(body.root, id=id)
    stored = call.change(lambda tx: pipelines.store(tx, call.tenant, spec, source="api"))
    shown = {
        "pipelineId": stored.pipeline_id,
        "version": stored.version,
        "specHash": stored.spec_hash,
        "isNew": stored.is_new,
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
    """Newest first."""
    with call.reading() as tx:
        return query.named("versions", reading.pipeline_versions(tx, call.tenant, id, query.page()))


@routes.add(
    "POST",
    "/api/pipelines/{id}/trigger",
    "Start a run",
    scopes=(WRITE,),
    ids=PIPELINE,
    body=TriggerRequest,
    answer=TriggerAnswer,
    errors=(NotFound, Conflict),
    links=dict.fromkeys(
        ("runs.get_run", "runs.list_task_runs", "runs.list_events", "runs.cancel"), "/pipelineRunId"
    ),
    longest_key=MAX_TOKEN,
    example={"input": {"folder": "/srv/data"}, "validationMode": "strict"},
)
def trigger(call: Call, id: str, body: TriggerRequest) -> dict[str, Any]:
    """Start a run of the newest version. Answers when the run is durable, not when it is done.

    The input is checked against the input schema of every entry task. With `validationMode` strict a mismatch
    is refused, with warn (default) it is told in `validationWarnings`, with none it is not looked at.

    With a `runToken` (or the header Idempotency-Key) that was used with this pipeline and input before, no
    run is started: the answer is the first one's as it stands, with `created` false. Another input is another
    run.
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
    errors=(NotFound, Conflict),
    links=dict.fromkeys(("runs.get_run", "runs.cancel"), "/runs/0/pipelineRunId"),
    longest_key=MAX_TOKEN - PLACE_CHARS,
    example={"runs": [{"input": {"folder": "/srv/data"}}, {"input": {"folder": "/home"}, "priority": 50}]},
)
def trigger_batch(call: Call, id: str, body: TriggerBatchRequest) -> dict[str, Any]:
    """All of them or, when one is wrong, none: one transaction, which costs a run a fraction of its own.

    Each run is answered as if it had been started alone, in the order of the request. `validationMode` counts
    for all of them; the fields of a refusal say which run is meant, as in `runs[3].input.folder`.

    With the header Idempotency-Key, an entry without a `runToken` has the header's, with its place behind it:
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
    """Levels, parallel steps, joins and what they wait for, warnings. Nothing is stored or started.

    With `spec` the document in the body is planned; it need not be stored, and its mistakes are the answer.
    With `input`, `validationErrors` says what the entry tasks' input schemas find wrong with it.
    """
    with call.reading() as tx:
        if body.spec is None:
            with triggering.known_pipeline(tx, call.tenant, id):
                spec = pipelines.get(tx, call.tenant, id).spec
        else:
            try:
                spec = parse_spec(body.spec, id=id)
            except InvalidSpec as error:
                return _invalid(error)
        tasks = services.tasks(tx, call.tenant, {step.task for step in spec.steps})
        known = {name: row for name, row in tasks.items() if row.orphaned_at is None}
        answer = plan_of(spec, known).to_json()
        if "input" in body.model_fields_set:
            answer["validationErrors"] = input_checks.shown(
                input_checks.entry_faults(spec, tasks, body.input)
            )
        return answer


def _invalid(error: InvalidSpec) -> dict[str, Any]:
    """A document that is not even a pipeline, as the answer of a dry run."""
    found = error.context.get("graphErrors") or [
        {
            "code": each.code.upper(),
            "message": f"{each.field}: {each.message}" if each.field else each.message,
            "steps": [],
        }
        for each in error.errors
    ]
    return {"valid": False, "errors": found, "warnings": [], "executionPlan": []}
