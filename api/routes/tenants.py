"""Endpoints of tenants: show and limit them; operators set quotas, disable and delete them."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.access import (
    DisableRequest,
    EnableRequest,
    TenantLimitsRequest,
    TenantRequest,
)
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.http import Answer, Call, Lines, PathId, Routes
from pipeweave.errors import Conflict, NotFound, TooManyRequests, Unavailable
from pipeweave.orchestrator.deployment import sealed_columns
from pipeweave.orchestrator.documents.access import (
    Tenant,
    TenantDeletion,
    TenantLimitsState,
    TenantList,
    TenantUse,
)
from pipeweave.orchestrator.queueing import tenant_deletions, tenant_limits
from pipeweave.orchestrator.reading import tenant_list
from pipeweave.orchestrator.retention import tenant_export
from pipeweave.orchestrator.runs import admission
from pipeweave.orchestrator.security import ADMIN

routes = Routes("access")

_ID = {"id": PathId(None, "The tenant.")}


@routes.add(
    "GET", "/api/tenants", "List the tenants", is_about_caller=True, query=PageQuery, answer=TenantList
)
def list_tenants(call: Call, query: PageQuery) -> dict[str, Any]:
    """The tenants that the request's token may enter, with their limits, by id. A tenant exists from its
    first registration, trigger or limit on.
    """
    with call.reading() as tx:
        return query.named("tenants", tenant_list.tenants(tx, call.access.tenants, query.page()))


@routes.add(
    "GET",
    "/api/tenants/{id}",
    "Show a tenant",
    is_about_caller=True,
    ids=_ID,
    answer=TenantUse,
    errors=(NotFound,),
)
def get_tenant(call: Call, id: str) -> dict[str, Any]:
    """The tenant's limit with the numbers of active and of waiting runs, and since when it is paused. Answers
    404 if the request's token may not enter it.
    """
    _check_entry(call, id)
    with call.reading() as tx:
        return tenant_list.tenant_in_use(tx, id)


@routes.add(
    "PUT",
    "/api/tenants/{id}",
    "Create or limit a tenant",
    scopes=(ADMIN,),
    is_about_caller=True,
    ids=_ID,
    body=TenantRequest,
    answer=Tenant,
    errors=(NotFound,),
    example={"maxActiveRuns": 10},
)
def put_tenant(call: Call, id: str, body: TenantRequest) -> dict[str, Any]:
    """Set how many runs of the tenant may be active at a time, and create the tenant if it is new. Answers
    404 if the request's token may not enter it.
    """
    _check_entry(call, id)
    call.change(lambda tx: admission.set_limit(tx, id, body.max_active_runs))
    with call.reading() as tx:
        return tenant_list.tenant(tx, id)


@routes.add(
    "GET",
    "/api/tenants/{id}/limits",
    "Show the quotas of a tenant",
    is_about_caller=True,
    ids=_ID,
    answer=TenantLimitsState,
    errors=(NotFound,),
)
def get_limits(call: Call, id: str) -> dict[str, Any]:
    """The quotas of a tenant, its weight, and how much of each quota is used. Answers 404 if the request's
    token may not enter it.
    """
    _check_entry(call, id)
    with call.reading() as tx:
        return tenant_list.limits(tx, id)


@routes.add(
    "PUT",
    "/api/tenants/{id}/limits",
    "Set the quotas of a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    body=TenantLimitsRequest,
    answer=TenantLimitsState,
    example={"runsPerDay": 10_000, "requestRate": "600/m", "weight": 3},
)
def put_limits(call: Call, id: str, body: TenantLimitsRequest) -> dict[str, Any]:
    """Let exactly these quotas hold, and create the tenant if it is new; one that the body leaves out allows
    any number. Only operators may: the token must be valid for all tenants.
    """
    call.change(lambda tx: tenant_limits.set_limits(tx, id, body.limits()))
    with call.reading() as tx:
        return tenant_list.limits(tx, id)


@routes.add(
    "POST",
    "/api/tenants/{id}/disable",
    "Disable a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    body=DisableRequest,
    is_body_optional=True,
    answer=TenantUse,
    errors=(NotFound,),
)
def disable(call: Call, id: str, body: DisableRequest) -> dict[str, Any]:
    """Begin nothing new of the tenant, at once, and refuse its requests within two seconds, but those with a
    token for all tenants and those of its services. What is under way ends; pause the tenant to stop it.
    """
    by = call.token_name
    call.change(lambda tx: tenant_limits.disable(tx, id, reason=body.reason, by=by))
    with call.reading() as tx:
        return tenant_list.tenant_in_use(tx, id)


@routes.add(
    "POST",
    "/api/tenants/{id}/enable",
    "Enable a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    body=EnableRequest,
    is_body_optional=True,
    answer=TenantUse,
    errors=(NotFound, Conflict),
)
def enable(call: Call, id: str, body: EnableRequest) -> dict[str, Any]:
    """Let a disabled tenant go on. What its schedules missed follows their missed policy."""
    call.change(lambda tx: tenant_limits.enable(tx, id))
    with call.reading() as tx:
        return tenant_list.tenant_in_use(tx, id)


@routes.add(
    "GET",
    "/api/tenants/{id}/export",
    "Export a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    gives_lines=True,
    errors=(NotFound, TooManyRequests, Unavailable),
)
def export(call: Call, id: str) -> Lines:
    """All rows of a tenant, of one moment, one a line: `{"table": …, "row": {…}}`, first of them
    `{"export": {…}}`, last `{"manifest": {…}}` with the number and the SHA-256 of the rows of each table, and
    with what was left out. Among the tables is `objects`, which lists what lies in storage. No secret is
    exported.

    Lines with a `cursor` come between; there is nothing to go on from. If the last line does not say
    `"isComplete":true`, or the answer breaks off, drop what came, and ask again.
    """
    exporting = tenant_export.TenantExport(call.deployment.database, id, sealed_columns.SEALED)
    return Lines(exporting.parts(), is_whole=True)


@routes.add(
    "DELETE",
    "/api/tenants/{id}",
    "Delete a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    answers={202: (TenantDeletion, "The tenant is disabled; the tick deletes it.")},
    errors=(NotFound, Conflict),
)
def delete(call: Call, id: str) -> Answer:
    """Disable the tenant at once, and delete all of it: the tick cancels its open runs, then deletes runs,
    history, definitions, uploads and tokens, some thousand rows at a time. Objects go with the next sweep of
    the storage. Rows of the audit stay, and archives of months. The name can be used again. Answers 409 while
    its workers are alive.
    """
    by = call.token_name
    call.change(lambda tx: tenant_deletions.request(tx, id, by=by))
    with call.reading() as tx:
        return Answer(tenant_list.deletion(tx, id), 202)


@routes.add(
    "GET",
    "/api/tenants/{id}/deletion",
    "Show the deletion of a tenant",
    scopes=(ADMIN,),
    is_for_all=True,
    ids=_ID,
    answer=TenantDeletion,
    errors=(NotFound,),
)
def get_deletion(call: Call, id: str) -> dict[str, Any]:
    """How far the deletion is; afterwards, when it ended."""
    with call.reading() as tx:
        return tenant_list.deletion(tx, id)


def _check_entry(call: Call, id: str) -> None:
    if not call.access.may_enter(id):
        raise NotFound(f"tenant {id!r} not found")
