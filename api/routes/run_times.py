"""Endpoints of the time of a run: what it was spent on."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract import LedgerAnswer
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import NotFound
from pipeweave.orchestrator import timeline

routes = Routes("runs")
RUN = {"id": PathId(ids.RUN, "The run's id.")}


@routes.add(
    "GET",
    "/api/runs/{id}/ledger",
    "Say what the duration of a run was spent on",
    ids=RUN,
    answer=LedgerAnswer,
    errors=(NotFound,),
)
def get_ledger(call: Call, id: str) -> dict[str, Any]:
    """The duration of a run, from its creation to its end or until now, as a sum along its critical path:
    work, and waits for limits, pauses, the queue, retries, predecessors.

    The critical path is followed backwards from the step that ended last to the predecessor that ended last,
    and so on. So a wait for the other predecessors of a join counts as what the last of them did. A map
    counts as its item that ended last.
    """
    with call.reading() as tx:
        return timeline.ledger(tx, call.tenant, ids.read(ids.RUN, id))
