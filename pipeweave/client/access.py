"""Login links and named views of the dashboard, tenants and the audit over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pipeweave.client.models import Document, Page, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


class AccessMethods(Methods):
    """The methods of the client about who may enter what."""

    def login_link(self, path: str | None = None) -> str:
        """Make a URL that logs one browser in, once, within a minute, with the rights of this client's token.

        Args:
            path: the page of the dashboard that it leads to, e.g. `/ui/r/prun_01jd…`; None for the first.
        """
        made = document_of(self._http.send("POST", "/api/sessions/links", {}))
        login, _, code = str(made["path"]).partition("#")
        asked = f"?next={quote(path, safe='/')}" if path else ""
        return f"{self._http.url}{login}{asked}#{code}"

    def tenants(self) -> list[Document]:
        """List the tenants that the token may enter, with their limits."""
        return list(self._all("/api/tenants", "tenants", {}))

    def tenant(self, tenant: str) -> Document:
        """Read a tenant's limit, its active and waiting runs, and its pause.

        Raises:
            NotFound: there is no such tenant, or the token may not enter it.
        """
        return document_of(self._http.get(f"/api/tenants/{checked_id(tenant)}", {}))

    def set_tenant(self, tenant: str, max_active_runs: int | None) -> Document:
        """Create a tenant or change its limit of active runs; None for no limit. For administrators."""
        body = without_none(maxActiveRuns=max_active_runs)
        return document_of(self._http.send("PUT", f"/api/tenants/{checked_id(tenant)}", body))

    def tenant_limits(self, tenant: str) -> Document:
        """Read the quotas of a tenant, its weight, and how much of each quota is used.

        Raises:
            NotFound: there is no such tenant, or the token may not enter it.
        """
        return document_of(self._http.get(f"/api/tenants/{checked_id(tenant)}/limits", {}))

    def set_tenant_limits(
        self,
        tenant: str,
        *,
        runs_per_day: int | None = None,
        open_task_runs: int | None = None,
        stored_bytes: int | None = None,
        schedules: int | None = None,
        request_rate: str | None = None,
        weight: int = 1,
    ) -> Document:
        """Let exactly these quotas of a tenant hold; None: any number. For operators, whose tokens are valid
        for all tenants.

        Args:
            runs_per_day: that begin on a day of UTC.
            open_task_runs: of open runs, not final.
            stored_bytes: in storage, by the last sum.
            schedules: that are stored.
            request_rate: requests with the tenant's tokens, as `600/m`.
            weight: turns that it gets where tenants take turns, 1 to 100.
        """
        body = without_none(
            runsPerDay=runs_per_day,
            openTaskRuns=open_task_runs,
            storedBytes=stored_bytes,
            schedules=schedules,
            requestRate=request_rate,
            weight=weight,
        )
        return document_of(self._http.send("PUT", f"/api/tenants/{checked_id(tenant)}/limits", body))

    def disable_tenant(self, tenant: str, reason: str | None = None) -> Document:
        """Begin nothing new of a tenant, and refuse its requests; what is under way ends. For operators."""
        body = without_none(reason=reason)
        return document_of(self._http.send("POST", f"/api/tenants/{checked_id(tenant)}/disable", body))

    def enable_tenant(self, tenant: str) -> Document:
        """Let a disabled tenant go on. For operators.

        Raises:
            Conflict: it is not disabled.
        """
        return document_of(self._http.send("POST", f"/api/tenants/{checked_id(tenant)}/enable", {}))

    def delete_tenant(self, tenant: str) -> Document:
        """Disable a tenant at once, and let the deployment delete all of it. For operators.

        Raises:
            NotFound: there is no such tenant.
            Conflict: its workers are alive.
        """
        return document_of(self._http.send("DELETE", f"/api/tenants/{checked_id(tenant)}"))

    def tenant_deletion(self, tenant: str) -> Document:
        """Read how far the deletion of a tenant is. For operators.

        Raises:
            NotFound: no tenant of this name was deleted.
        """
        return document_of(self._http.get(f"/api/tenants/{checked_id(tenant)}/deletion", {}))

    def audit(self, /, *, limit: int | None = None, cursor: str | None = None, **filters: Any) -> Page:
        """List one page of who changed what, newest first. For administrators.

        Args:
            limit: rows per page, 1 to 1,000; None for 50.
            cursor: `next_cursor` of the page before.
            filters: parameters of the API: `actor`, `verb`, `object`, `since`, `until`. `export("audit")`
                takes them, too, and gives all rows.
        """
        return self._page("/api/audit", "entries", {"limit": limit, "cursor": cursor, **filters})

    def views(self, screen: str | None = None) -> list[Document]:
        """List the named views of the tenant, filters of a screen of the dashboard, by name.

        Args:
            screen: only those of this screen, e.g. `runs`.
        """
        return list(document_of(self._http.get("/api/views", {"screen": screen}))["views"])

    def save_view(self, screen: str, name: str, query: str) -> Document:
        """Save the filters of a screen under a name; a view of this name is replaced.

        Args:
            query: the parameters of the screen's address, e.g. `status=failed&window=24h`.

        Raises:
            LimitExceeded: the tenant has as many views as it may have.
        """
        body = {"screen": screen, "name": name, "query": query}
        return document_of(self._http.send("POST", "/api/views", body))

    def delete_view(self, view_id: str) -> None:
        """Delete a view for everybody.

        Raises:
            NotFound: there is no such view.
        """
        self._http.send("DELETE", f"/api/views/{checked_id(view_id)}")
