"""Endpoints of the audit: its list, and its export."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.audit import AuditExportQuery, AuditQuery
from pipeweave.api.http import Call, Lines, Routes, audited
from pipeweave.errors import FieldError, InvalidInput, TooManyRequests, Unavailable
from pipeweave.orchestrator.documents.access import AuditList
from pipeweave.orchestrator.export import AuditExport, Position
from pipeweave.orchestrator.reading import audit_list
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT
from pipeweave.suggestions import nearest

routes = Routes("access")


@routes.add(
    "GET",
    "/api/audit",
    "List who changed what",
    scopes=(ADMIN,),
    spans_tenants=True,
    query=AuditQuery,
    answer=AuditList,
)
def list_entries(call: Call, query: AuditQuery) -> dict[str, Any]:
    """One row for each request or command that changed something, newest first: who, with which token or
    session, what, and what was different afterwards. Without X-Tenant, of all tenants of the token.

    Triggers, queued tasks and workers' reports have none: runs, task runs and events say who and what. What
    concerns the whole deployment is listed for tokens that are valid for every tenant.
    """
    _check_verb(query.verb)
    sees_deployment = call.access.may_enter(EVERY_TENANT)
    with call.reading() as tx:
        page = audit_list.audit(
            tx, call.tenants, query.page(), query.filter(), sees_deployment=sees_deployment
        )
    return query.named("entries", page)


@routes.add(
    "GET",
    "/api/export/audit",
    "Export the audit",
    scopes=(ADMIN,),
    spans_tenants=True,
    query=AuditExportQuery,
    gives_lines=True,
    errors=(TooManyRequests, Unavailable),
)
def export_entries(call: Call, query: AuditExportQuery) -> Lines:
    """The chosen rows as `GET /api/audit` lists them, one a line, the oldest first, with cursors as in `GET
    /api/export/runs`. The last cursor of a complete export goes on later with what was added since.
    """
    _check_verb(query.verb)
    sees_deployment = call.access.may_enter(EVERY_TENANT)
    export = AuditExport(call.deployment.database, call.tenants, query.filter(), sees_deployment)
    return Lines(export.parts(Position() if query.after is None else export.position(query.after)))


def _check_verb(verb: str | None) -> None:
    """Tell a misspelt operation from one that nobody used yet. Commands, which have a space, are any."""
    if verb is None or "." not in verb or verb in audited.VERBS:
        return
    near = nearest(verb, audited.VERBS)
    said = f"did you mean {near!r}?" if near else "GET /api/openapi.json lists the operation ids"
    raise InvalidInput(
        f"verb: no operation {verb[:100]!r} is audited; {said}",
        errors=[FieldError("verb", f"is not an audited operation; {said}", "invalid_value")],
    )
