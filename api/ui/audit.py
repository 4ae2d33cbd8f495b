"""The screen of the audit: who changed what."""

from __future__ import annotations

from pipeweave.api.ui import saved_views
from pipeweave.api.ui.exports import AUDIT_FILTERS, audit_query
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.view import View

screens = Screens("audit")


@screens.add("/audit", "audit.html")
def audit(view: View) -> ScreenPage:
    """The rows of the tenant, newest first."""
    view.require_filters(*AUDIT_FILTERS)
    answer = view.ask("audit.list_entries", audit_query(view, "cursor", limit="50"))
    shown = {
        "entries": answer["entries"],
        "cursor": answer["nextCursor"],
        "is_filtered": view.has_any(*AUDIT_FILTERS),
        "export": view.url("/export/audit", **audit_query(view)),
        **saved_views.shown(view, "audit", AUDIT_FILTERS),
    }
    return ScreenPage("Audit", shown)
