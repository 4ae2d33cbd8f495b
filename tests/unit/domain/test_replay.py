"""A run rebuilt from its events: what they lead to, and which of them cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.orchestrator.domain.replay import RebuiltAttempt, RebuiltRun, RebuiltTaskRun, rebuild
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus
from pipeweave.orchestrator.domain.stored_event import StoredEvent
from pipeweave.size_limits import MAX_TASK_RUNS_PER_RUN

T = TaskStatus


def told(*events: tuple[Any, ...]) -> RebuiltRun:
    """The run of events, each (type, data) or (type, ordinal, attempt, data)."""
    return rebuild(_event(number, *each) for number, each in enumerate(events, start=1))


def _event(seq: int, type_: str, *rest: Any) -> StoredEvent:
    match rest:
        case (int(ordinal), int(attempt), data):
            return StoredEvent(seq, type_, ordinal, attempt, data)
        case (data,):
            return StoredEvent(seq, type_, data=data)
        case _:
            return StoredEvent(seq, type_)


CREATED = ("run.created", {"steps": 2})
QUEUED = ("task_runs.queued", {"ordinals": [[1, 1]]})
STARTED = ("task_run.started", 1, 1, {"worker": "w"})
COMPLETED = ("task_run.completed", 1, 1, {"outputHash": "ab", "selectedNext": ["b"]})
RETRYING = ("task_run.retrying", 1, 1, {"outcome": "failed", "errorCode": "BOOM", "nextAttempt": 2})


def whys(run: RebuiltRun) -> list[str]:
    return [each.why for each in run.faults]


def test_a_run_that_was_created_has_a_pending_task_run_for_each_step() -> None:
    run = told(CREATED)
    assert run == RebuiltRun(RunStatus.RUNNING, None, True, dict.fromkeys((1, 2), RebuiltTaskRun()), {}, [])


def test_a_run_that_waits_for_its_turn_has_not_started() -> None:
    created = ("run.created", {"steps": 1, "status": "pending"})
    assert told(created).has_started is False
    assert told(created, ("run.running",)).has_started is True
    cancelled = told(created, ("run.cancelled", {"errorCode": "CANCELLED"}))
    assert (cancelled.status, cancelled.has_started) == (RunStatus.CANCELLED, False)


def test_a_step_goes_its_way_and_leaves_what_it_gave() -> None:
    run = told(CREATED, QUEUED, STARTED, COMPLETED)
    assert run.task_runs[1] == RebuiltTaskRun(T.COMPLETED, 1, True, "w", None, "ab", ("b",))
    assert run.faults == []


def test_a_worker_that_ended_a_step_goes_on_with_the_next_one() -> None:
    on = ("task_run.started", 2, 1, {"worker": "w", "from": "pending"})
    assert told(CREATED, QUEUED, STARTED, COMPLETED, on).faults == []
    assert whys(told(CREATED, QUEUED, STARTED, COMPLETED, ("task_run.started", 2, 1, {"worker": "w"}))) == [
        "the task run is pending, which this event cannot follow"
    ]


def test_a_task_run_dispatched_by_a_limit_was_ready_before() -> None:
    ready = ("task_runs.ready", {"ordinals": [[1, 1]]})
    let_go = ("task_runs.queued", {"ordinals": [[1, 1]], "from": "ready"})
    assert told(CREATED, ready, let_go).task_runs[1].status is T.QUEUED
    assert told(CREATED, ready, let_go).faults == []
    assert len(told(CREATED, let_go).faults) == 1
    assert len(told(CREATED, ready, QUEUED).faults) == 1


def test_an_http_service_that_took_a_dispatch_is_the_worker() -> None:
    taken = ("task_run.dispatched", 1, 1, {"worker": "mailer http://m:3001"})
    assert told(CREATED, QUEUED, STARTED, taken).task_runs[1].worker == "mailer http://m:3001"
    assert told(CREATED, QUEUED, STARTED, taken, COMPLETED).faults == []
    assert len(told(CREATED, QUEUED, taken).faults) == 1


def test_a_returned_task_run_belongs_to_no_worker() -> None:
    given_back = ("task_runs.queued", {"ordinals": [[1, 1]], "from": "running"})
    run = told(CREATED, QUEUED, STARTED, given_back)
    assert run.task_runs[1] == RebuiltTaskRun(T.QUEUED, 1, True)
    assert run.faults == []
    assert len(told(CREATED, QUEUED, given_back).faults) == 1


def test_another_attempt_begins_without_anything_of_the_one_before() -> None:
    run = told(CREATED, QUEUED, STARTED, RETRYING)
    assert run.task_runs[1] == RebuiltTaskRun(attempt=2)
    assert run.attempts == {(1, 1): RebuiltAttempt("failed", "w", "BOOM")}
    again = told(CREATED, QUEUED, STARTED, RETRYING, QUEUED, ("task_run.started", 1, 2, {"worker": "v"}))
    assert again.task_runs[1] == RebuiltTaskRun(T.RUNNING, 2, True, "v")
    assert again.faults == []


def test_an_event_of_another_attempt_cannot_be() -> None:
    late = told(CREATED, QUEUED, STARTED, RETRYING, QUEUED, STARTED)
    assert whys(late) == ["it is about attempt 1, the task run is at attempt 2"]


@pytest.mark.parametrize(
    ("type_", "status"), [("task_run.failed", T.FAILED), ("task_run.timed_out", T.TIMEOUT)]
)
def test_the_last_attempt_ends_with_its_code(type_: str, status: TaskStatus) -> None:
    run = told(CREATED, QUEUED, STARTED, (type_, 1, 1, {"errorCode": "BOOM", "outcome": "lost"}))
    assert run.task_runs[1] == RebuiltTaskRun(status, 1, True, "w", "BOOM")
    assert run.attempts == {(1, 1): RebuiltAttempt("lost", "w", "BOOM")}


def test_one_event_moves_many_task_runs() -> None:
    run = told(
        ("run.created", {"steps": 5}),
        ("task_runs.skipped", {"ordinals": [[1, 2], [4, 4]], "errorCode": None}),
        ("task_runs.cancelled", {"ordinals": [[3, 3], [5, 5]], "errorCode": "CANCELLED"}),
    )
    statuses = [run.task_runs[ordinal].status for ordinal in range(1, 6)]
    assert statuses == [T.SKIPPED, T.SKIPPED, T.CANCELLED, T.SKIPPED, T.CANCELLED]
    assert run.task_runs[5].error_code == "CANCELLED"


def test_a_map_brings_its_items() -> None:
    items = ("task_runs.queued", {"ordinals": [[3, 5]]})
    mapped = ("task_run.mapped", 1, 1, {"first": 3, "count": 3})
    run = told(CREATED, mapped, items, ("task_run.completed", 1, 1, {"count": 3}))
    assert run.task_runs[1] == RebuiltTaskRun(T.COMPLETED, 1, True, map_first=3, map_count=3)
    assert [run.task_runs[ordinal].status for ordinal in (3, 4, 5)] == [T.QUEUED] * 3
    assert run.faults == []
    assert whys(told(CREATED, items)) == ["no event made the task run"]


def test_a_map_over_nothing_completes_at_once() -> None:
    run = told(CREATED, ("task_run.completed", 1, 1, {"count": 0}))
    assert (run.task_runs[1].status, run.task_runs[1].map_count, run.faults) == (T.COMPLETED, 0, [])


def test_a_run_goes_on_when_a_dead_letter_is_retried() -> None:
    run = told(
        ("run.created", {"steps": 3}),
        ("task_runs.queued", {"ordinals": [[1, 2]]}),
        STARTED,
        ("task_run.started", 2, 1, {"worker": "w"}),
        ("task_run.failed", 1, 1, {"errorCode": "BOOM"}),
        ("run.failed", {"errorCode": "STEP_FAILED"}),
        ("task_runs.cancelled", {"ordinals": [[2, 3]], "errorCode": "RUN_FAILED"}),
        ("run.reopened",),
        ("task_run.reopened", 1, 1, {"nextAttempt": 2}),
        ("task_runs.reopened", {"ordinals": [[2, 3]], "bumped": [[2, 2]]}),
    )
    assert (run.status, run.error_code, run.faults) == (RunStatus.RUNNING, None, [])
    assert [run.task_runs[each] for each in (1, 2, 3)] == [
        RebuiltTaskRun(attempt=2),
        RebuiltTaskRun(attempt=2),
        RebuiltTaskRun(attempt=1),
    ]
    assert run.attempts == {
        (1, 1): RebuiltAttempt(None, "w", "BOOM"),
        (2, 1): RebuiltAttempt("cancelled", "w", "RUN_FAILED"),
    }


def test_a_run_ends_once() -> None:
    ended = told(CREATED, ("run.completed",), ("run.failed", {"errorCode": "STEP_FAILED"}))
    assert whys(ended) == ["the run is completed, which this event cannot follow"]
    assert whys(told(("run.completed",))) == ["no event created the run"]
    assert whys(told(CREATED, CREATED)) == ["the run is running already"]


@pytest.mark.parametrize(
    "event",
    [
        ("run.exploded",),
        ("task_run.started", {}),
        ("task_runs.queued", {}),
        ("task_runs.queued", {"ordinals": "1-2"}),
        ("task_runs.queued", {"ordinals": [[2, 1]]}),
        ("task_runs.queued", {"ordinals": [[1, MAX_TASK_RUNS_PER_RUN + 1]]}),
        ("task_run.retrying", 1, 1, {}),
        ("task_run.completed", 1, 1, {"selectedNext": "b"}),
        ("task_run.mapped", 1, 1, {"first": MAX_TASK_RUNS_PER_RUN, "count": 2}),
        ("run.created", {"steps": 1, "status": "odd"}),
        ("run.created", {}),
    ],
)
def test_an_event_that_says_nonsense_is_a_fault_and_nothing_worse(event: tuple[Any, ...]) -> None:
    assert len(told(event).faults) == 1


_SCALARS = st.none() | st.booleans() | st.integers(-2, 40) | st.text(max_size=3)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
_TYPES = st.sampled_from(
    [
        *(f"run.{each}" for each in ("created", "reopened", *RunStatus)),
        *(f"task_runs.{each}" for each in ("queued", "ready", "skipped", "cancelled", "reopened")),
        *(
            f"task_run.{each}"
            for each in ("started", "completed", "failed", "retrying", "mapped", "reopened")
        ),
    ]
)
_NAMES = st.sampled_from(
    ["steps", "status", "ordinals", "bumped", "worker", "from", "errorCode", "nextAttempt", "first", "count"]
)
_EVENTS = st.builds(
    StoredEvent,
    st.just(1),
    _TYPES,
    st.none() | st.integers(0, 5),
    st.none() | st.integers(-1, 3),
    st.dictionaries(_NAMES, _VALUES, max_size=4),
)


@given(st.lists(_EVENTS, max_size=12))
def test_no_history_however_broken_breaks_its_reader(events: list[StoredEvent]) -> None:
    assert rebuild(events) == rebuild(events)
