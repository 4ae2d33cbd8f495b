"""What a bulk change is asked to do, from the request to its row and back."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from pipeweave import ids
from pipeweave.api.contract.bulk import BulkFilter
from pipeweave.orchestrator.kept import RunFilter
from pipeweave.orchestrator.operations import Selection

RUN = ids.new_id()
EVERY_FILTER = {
    "ids": [ids.show(ids.RUN, RUN)],
    "status": ["failed", "partial"],
    "pipelineId": ["nightly"],
    "triggeredBy": "schedule",
    "createdAfter": "2026-11-20T12:00:00.123+02:00",
    "createdBefore": "2026-11-21T12:00:00Z",
    "text": "acme",
    "meta": ["customer=acme=1"],
    "version": 3,
    "minMs": 1_000,
    "taskId": "send-mail",
}
SELECTION = Selection(
    RunFilter(
        ("failed", "partial"),
        ("nightly",),
        datetime(2026, 11, 20, 10, 0, 0, 123_000, tzinfo=UTC),
        datetime(2026, 11, 21, 12, tzinfo=UTC),
        None,
        "schedule",
        "acme",
        {"customer": "acme=1"},
        3,
        1_000,
        "send-mail",
    ),
    (RUN,),
)


def test_every_filter_of_a_request_chooses_runs_and_comes_back_from_the_row() -> None:
    chosen = BulkFilter.model_validate(EVERY_FILTER).selection()
    assert chosen == SELECTION
    assert Selection.of_json(orjson.loads(orjson.dumps(chosen.to_json()))) == SELECTION


def test_no_filter_chooses_by_nothing() -> None:
    assert BulkFilter.model_validate({}).selection() == Selection()
