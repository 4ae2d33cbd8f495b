"""The endpoints of enqueued runs: those that programs put into the database in transactions of their own, and
those that requests put off.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pipeweave.api.contract.enqueued import EnqueuedQuery
from pipeweave.api.contract.requests import DebounceRequest
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.api.routes import triggering as requested_runs
from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.documents.enqueued import DebouncedRun, EnqueuedList
from pipeweave.orchestrator.runs import triggering
from pipeweave.orchestrator.security import WRITE
from pipeweave.orchestrator.starts.enqueued import debouncing

routes = Routes("runs")


@routes.add("GET", "/api/enqueued", "List the enqueued runs", query=EnqueuedQuery, answer=EnqueuedList)
def list_enqueued(call: Call, query: EnqueuedQuery) -> dict[str, Any]:
    """Runs that were enqueued by SQL and have not started: those that wait, that were refused, or whose token
    an earlier run has. Those that have started are runs.
    """
    with call.reading() as tx:
        page = reading.enqueued_list(tx, call.tenant, query.page(), query.status)
    return {"enqueuedRuns": page.pop("items"), **page}


@routes.add(
    "POST",
    "/api/pipelines/{id}/debounce",
    "Put a run off until requests are quiet",
    scopes=(WRITE,),
    ids={"id": PathId(None, "The pipeline's id.")},
    body=DebounceRequest,
    answers={202: (DebouncedRun, "The run is put off; it starts without a further request.")},
    errors=(NotFound,),
    example={"key": "order-17", "waitMs": 30_000, "longestMs": 300_000, "input": {"order": 17}},
)
def debounce(call: Call, id: str, body: DebounceRequest) -> Answer:
    """Start a run when no other request with the same key has come for `waitMs`, at the latest `longestMs`
    after the first one. It has the input and the options of the last request. Until it starts it is an
    enqueued run: durable, listed by `GET /api/enqueued`, and its id answers 404, `RUN_ENQUEUED`.
    """
    request = triggering.StartRequest(
        id, body.input, body.failure_mode, body.priority, body.metadata, triggered_by=call.cause
    )
    wait, longest = (timedelta(milliseconds=each) for each in (body.wait_ms, body.longest_ms))
    times = debouncing.Debounce(body.key, wait, longest)

    def verb(tx: Any) -> Any:
        with requested_runs.known_pipeline(tx, call.tenant, id):
            return debouncing.put_off(tx, call.tenant, request, times)

    return Answer(DebouncedRun.of(call.change(verb)), 202)
