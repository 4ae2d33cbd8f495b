"""Endpoints of the audit: its list, and its export."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract import AuditExportQuery, AuditList, AuditQuery
from pipeweave.api.http import Call, Lines, Routes
from pipeweave.errors import TooManyRequests, Unavailable
from pipeweave.orchestrator.export import AuditExport, Position
from pipeweave.orchestrator.reading import audit_list
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT

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
    sees_deployment = call.access.may_enter(EVERY_TENANT)
    with call.reading() as tx:
        found = audit_list.audit(
            tx, call.tenants, query.page(), query.filter(), sees_deployment=sees_deployment
        )
    return query.named("entries", found)


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
    sees_deployment = call.access.may_enter(EVERY_TENANT)
    export = AuditExport(call.deployment.database, call.tenants, query.filter(), sees_deployment)
    return Lines(export.parts(Position() if query.after is None else export.position(query.after)))
