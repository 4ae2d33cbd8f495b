"""Endpoints of the time of a run: what it was spent on, what its steps did when, the items of its maps."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.run_times import ItemsQuery, TimelineQuery
from pipeweave.api.http import Call, PathId, Routes
from pipeweave.errors import Conflict, NotFound
from pipeweave.orchestrator import timeline
from pipeweave.orchestrator.documents.run_times import ItemsAnswer, LedgerAnswer, TimelineAnswer

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


@routes.add(
    "GET",
    "/api/runs/{id}/timeline",
    "Show when each step did what",
    ids=RUN,
    query=TimelineQuery,
    answer=TimelineAnswer,
    errors=(NotFound,),
)
def get_timeline(call: Call, id: str, query: TimelineQuery) -> dict[str, Any]:
    """The steps of a run with the bars of a timeline: what each did and waited for, with every attempt. A map
    has a lane besides: how many of its items ran at a time.
    """
    with call.reading() as tx:
        return timeline.timeline(tx, call.tenant, ids.read(ids.RUN, id), query.page(), bins=query.bins)


@routes.add(
    "GET",
    "/api/runs/{id}/steps/{step}/items",
    "Show the items of a map",
    ids={**RUN, "step": PathId(None, "The id of a step that is a map.")},
    query=ItemsQuery,
    answer=ItemsAnswer,
    errors=(NotFound, Conflict),
)
def get_items(call: Call, id: str, step: str, query: ItemsQuery) -> dict[str, Any]:
    """The items of a map: a list page by page, by index or the slowest first; or all of them, up to 100,000,
    as a matrix of statuses and durations; or as a lane, which says how many ran at a time.
    """
    with call.reading() as tx:
        run_id = ids.read(ids.RUN, id)
        return timeline.items(tx, call.tenant, run_id, step, query.page(), **query.filters())
