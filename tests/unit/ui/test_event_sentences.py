"""Events of a run as sentences that name steps and items."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pipeweave import ids
from pipeweave.api.ui.event_sentences import Names, said, written

RUN = UUID("019ecb1e-e4bf-7417-ae52-058267000000")
AT = "2026-06-15T12:00:00.043+00:00"
BEGAN = "2026-06-15T12:00:00.000+00:00"


def shown(ordinal: int) -> str:
    return ids.show(ids.TASK_RUN, ids.task_run_id(RUN, ordinal))


def event(kind: str, attempt: int | None = 1, **data: Any) -> dict[str, Any]:
    return {"type": kind, "attempt": attempt, "at": AT, "data": data, "taskRunId": None}


STEPS = [{"id": "fetch", "taskRunId": shown(1)}, {"id": "score", "taskRunId": shown(2)}]
MAPPED = [{"taskRunId": shown(2), "data": {"first": 3, "count": 400}}]
NAMES = Names(STEPS, MAPPED)


@pytest.mark.parametrize(
    ("ordinal", "name"), [(1, "fetch"), (3, "score[0]"), (402, "score[399]"), (403, None)]
)
def test_a_task_run_is_named_by_its_step_and_item(ordinal: int, name: str | None) -> None:
    found = NAMES.of(shown(ordinal))
    assert (found and written(found)) == name


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (
            event("task_run.retrying", errorCode="BUSY", error="the tagger is busy"),
            "failed with BUSY: the tagger is busy; it is tried again",
        ),
        (event("task_run.started", worker="studio-1@host:41:5e5e#44"), "began on studio-1@host"),
        (event("task_run.started", attempt=2), "attempt 2 began"),
        (event("task_run.completed"), "completed in 43 ms"),
        (
            event("task_run.failed", errorCode="HTTP_422", error="card expired"),
            "failed after 43 ms with HTTP_422: card expired",
        ),
        (event("task_run.mapped", count=400, first=3), "has 400 items"),
        (event("task_runs.queued", None, ordinals=[[1, 1]]), "fetch: queued"),
        (event("task_runs.queued", None, ordinals=[[3, 402]]), "400 items of score: queued"),
        (event("task_runs.skipped", None, ordinals=[[500, 600]]), "101 task runs: passed over"),
        (event("run.failed", None, errorCode="STEP_FAILED"), "The run failed with STEP_FAILED"),
        (event("task_run.of_tomorrow"), "of tomorrow"),
    ],
)
def test_an_event_is_a_sentence(told: dict[str, Any], sentence: str) -> None:
    assert said(told, NAMES, BEGAN) == sentence
