"""Login links of the dashboard and tenants over HTTP."""

from __future__ import annotations

from urllib.parse import quote

from pipeweave.client.models import Document, checked_id, document_of, without_none
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

    def set_tenant(self, tenant: str, max_active_runs: int | None) -> Document:
        """Create a tenant or change its limit of active runs; None for no limit. For administrators."""
        body = without_none(maxActiveRuns=max_active_runs)
        return document_of(self._http.send("PUT", f"/api/tenants/{checked_id(tenant)}", body))
