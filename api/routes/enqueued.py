"""The endpoint of enqueued runs: those that programs put into the database in transactions of their own."""

from __future__ import annotations

from typing import Any

from pipeweave.api.contract.enqueued import EnqueuedQuery
from pipeweave.api.http import Call, Routes
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.enqueued import EnqueuedList

routes = Routes("runs")


@routes.add("GET", "/api/enqueued", "List the enqueued runs", query=EnqueuedQuery, answer=EnqueuedList)
def list_enqueued(call: Call, query: EnqueuedQuery) -> dict[str, Any]:
    """Runs that were enqueued by SQL and have not started: those that wait, that were refused, or whose token
    an earlier run has. Those that have started are runs.
    """
    with call.reading() as tx:
        page = reading.enqueued_list(tx, call.tenant, query.page(), query.status)
    return {"enqueuedRuns": page.pop("items"), **page}
