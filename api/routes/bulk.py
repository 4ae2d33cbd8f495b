"""Endpoints of bulk changes: an action on many runs, which the tick works off."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.bulk import BulkChangeRequest, BulkRunsQuery
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import MAX_TOKEN
from pipeweave.api.http import Answer, Call, PathId, Routes, idempotency_header
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound
from pipeweave.orchestrator.documents.operations import BulkChange, BulkChangeList, BulkPlan, BulkRunList
from pipeweave.orchestrator.operations import BulkAction, BulkRequest, Selection, bulk_changes, choosing
from pipeweave.orchestrator.reading import bulk_changes as queries
from pipeweave.orchestrator.security import WRITE

routes = Routes("bulk changes")
BULK = {"id": PathId(ids.BULK, "The bulk change's id.")}

# Options -> the actions that take them.
_TAKEN_BY = {
    "reason": (BulkAction.CANCEL, BulkAction.PAUSE),
    "fromStep": (BulkAction.RERUN,),
    "version": (BulkAction.RERUN,),
}


@routes.add(
    "POST",
    "/api/bulk",
    "Change many runs",
    scopes=(WRITE,),
    body=BulkChangeRequest,
    answers={
        200: (BulkPlan, "What it would do: this was a dry run."),
        202: (BulkChange, "The bulk change has started."),
    },
    errors=(NotFound, Conflict),
    links={"bulk.get_change": "/id"},
    longest_key=MAX_TOKEN,
    example={"action": "cancel", "filter": {"pipelineId": ["nightly"]}, "dryRun": True},
)
def start(call: Call, body: BulkChangeRequest) -> Answer:
    """Cancel, pause, resume, rerun or retry all runs that match all given filters, up to 100,000. The tick
    changes them one by one: follow it at `/api/bulk/{id}`. Runs that began after the request are not meant.

    `dryRun` answers how many runs it would be now, and changes nothing. With an Idempotency-Key the request
    can be repeated; the same key with another request is answered with 409.
    """
    key = idempotency_header.of_body(call.key, body.idempotency_key, "idempotencyKey")
    request = body.request(key, call.token_name or None)
    _check(request)
    with call.reading() as tx:
        counted = choosing.count(tx, call.tenant, request.action, request.selection)
    if body.dry_run:
        return Answer(_plan(request, counted), 200)
    bulk = call.change(lambda tx: bulk_changes.create(tx, call.tenant, request, counted))
    with call.reading() as tx:
        return Answer(queries.bulk_change(tx, call.tenant, bulk), 202)


def _check(request: BulkRequest) -> None:
    """Refuse a request without a filter, and options that the action does not take; all mistakes at once."""
    options = request.options()
    errors = [
        FieldError(name, f"is not taken by {request.action.value}", "invalid")
        for name, actions in _TAKEN_BY.items()
        if name in options and request.action not in actions
    ]
    hint = None
    if request.selection == Selection():
        message = "needs a filter: every run would be changed"
        errors.append(FieldError("filter", message, "required"))
        hint = "set at least one filter, e.g. pipelineId or status"
    if errors:
        detail = "; ".join(f"{each.field} {each.message}" for each in errors)
        raise InvalidInput(detail, errors=errors, hint=hint)


def _plan(request: BulkRequest, counted: choosing.CountedRuns) -> dict[str, Any]:
    named = set(request.selection.ids or ())
    return BulkPlan.of(
        counted,
        is_dry_run=True,
        action=request.action.value,
        skipped=max(0, len(named) - counted.matched),
    )


@routes.add("GET", "/api/bulk", "List the bulk changes", query=PageQuery, answer=BulkChangeList)
def list_changes(call: Call, query: PageQuery) -> dict[str, Any]:
    """Bulk changes, newest first."""
    with call.reading() as tx:
        return query.named("bulkChanges", queries.bulk_change_list(tx, call.tenant, query.page()))


@routes.add("GET", "/api/bulk/{id}", "Show a bulk change", ids=BULK, answer=BulkChange, errors=(NotFound,))
def get_change(call: Call, id: str) -> dict[str, Any]:
    """One bulk change with its progress."""
    with call.reading() as tx:
        return queries.bulk_change(tx, call.tenant, ids.read(ids.BULK, id))


@routes.add(
    "GET",
    "/api/bulk/{id}/runs",
    "List the runs of a bulk change",
    ids=BULK,
    query=BulkRunsQuery,
    answer=BulkRunList,
    errors=(NotFound,),
)
def list_runs(call: Call, id: str, query: BulkRunsQuery) -> dict[str, Any]:
    """The runs that it has come to, and what became of each: changed, or skipped and why."""
    with call.reading() as tx:
        page = queries.run_list(tx, call.tenant, ids.read(ids.BULK, id), query.page(), outcome=query.outcome)
        return query.named("runs", page)


@routes.add(
    "POST",
    "/api/bulk/{id}/cancel",
    "Stop a bulk change",
    scopes=(WRITE,),
    ids=BULK,
    answer=BulkChange,
    errors=(NotFound, Conflict),
)
def cancel(call: Call, id: str) -> dict[str, Any]:
    """Stop a bulk change. What it has changed stays changed; the other runs stay as they are."""
    bulk = ids.read(ids.BULK, id)
    call.change(lambda tx: bulk_changes.cancel(tx, call.tenant, bulk))
    return get_change(call, id)
