"""What tutorials of Step Functions do, said in documents of ours, comes to the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.stubbed_runs import StubbedRuns, documents_of

from pipeweave import Context, Suspend, TaskError
from pipeweave.errors import CallbackTaken, Forbidden

DOCUMENTS = documents_of("state-machines")


def begin(runs: StubbedRuns, id: str, input: Any = None) -> Any:
    """Store a document of the page, and begin a run of it."""
    runs.put(DOCUMENTS[id])
    return runs.begin(id, input)


def failing(*codes: str | None, result: Any = "done") -> Callable[[], Any]:
    """A function that fails with one code after the other, and then has a result."""
    left = list(codes)

    def call() -> Any:
        if left and (code := left.pop(0)) is not None:
            raise TaskError("it did not work", code=code)
        return result

    return call


# --- choice, map, parallel, wait --------------------------------------------------------------------------


@pytest.mark.parametrize(("foo", "called"), [(1, "on_first_match"), (2, "on_second_match")])
def test_a_choice_goes_on_after_the_branch_that_matched(runs: StubbedRuns, foo: int, called: str) -> None:
    runs.serve(on_first_match=lambda: 1, on_second_match=lambda: 2, next_state=lambda: "next")
    assert runs.outcome(begin(runs, "choice", {"foo": foo})) == ("completed", "next")
    assert [task for task, _ in runs.called] == [called, "next_state"]


def test_a_choice_without_a_match_fails_as_its_default_says(runs: StubbedRuns) -> None:
    runs.serve(on_first_match=lambda: 1, on_second_match=lambda: 2, next_state=lambda: "next")
    run_id = begin(runs, "choice", {"foo": 3})
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "neither") == ("NO_MATCHES", "no case for 3")
    assert runs.called == []


def test_a_map_runs_the_states_of_each_item_and_keeps_their_order(runs: StubbedRuns) -> None:
    runs.serve(
        validate=lambda parcel: parcel | {"ok": True},
        send=lambda parcel, courier: f"{courier}:{parcel['id']}",
    )
    shipped = [{"id": number} for number in range(5)]
    run_id = begin(runs, "map", {"detail": {"courier": "bike", "shipped": shipped}})
    assert runs.outcome(run_id) == ("completed", [f"bike:{number}" for number in range(5)])
    assert len(runs.calls("validate")) == 5


def test_parallel_branches_give_their_results_in_the_order_of_the_branches(runs: StubbedRuns) -> None:
    runs.serve(look_up_address=lambda customer: "Main Street", look_up_phone=lambda customer: "0815")
    assert runs.outcome(begin(runs, "parallel", {"customer": 7})) == ("completed", ["Main Street", "0815"])


def test_a_branch_that_fails_fails_the_parallel_block(runs: StubbedRuns) -> None:
    def no_phone(customer: int) -> str:
        raise TaskError("nobody has a phone", code="NO_PHONE")

    runs.serve(look_up_address=lambda customer: "Main Street", look_up_phone=no_phone)
    run_id = begin(runs, "parallel", {"customer": 7})
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "lookups")[0] == "PARALLEL_FAILED"
    assert runs.step(run_id, "address") == "completed"


def test_waits_take_seconds_a_number_of_the_input_and_a_time_of_the_input(runs: StubbedRuns) -> None:
    runs.serve(done=lambda: "awake")
    expiry = runs.clock() + timedelta(hours=1)
    run_id = begin(runs, "wait", {"seconds": 20, "expiry": expiry.isoformat()})
    runs.wait(seconds=11)
    assert runs.step(run_id, "seconds_of_the_input") == "waiting"
    runs.wait(seconds=21)
    assert runs.step(run_id, "until_then") == "waiting"
    runs.wait(hours=1)
    assert runs.outcome(run_id) == ("completed", "awake")


# --- errors -----------------------------------------------------------------------------------------------


def test_retry_waits_longer_each_time_and_succeeds_with_the_fourth_attempt(runs: StubbedRuns) -> None:
    runs.serve(call_api=failing("CustomError", "CustomError", "CustomError"))
    since = datetime.now(UTC)
    run_id = begin(runs, "retry")
    for seconds in (1, 2, 4):
        assert runs.retried_after(run_id, "call", since, seconds)
        since = datetime.now(UTC)
        runs.wait(hours=1, most=1)
    assert runs.outcome(run_id) == ("completed", "done")
    assert len(runs.calls("call_api")) == 4


def test_retry_is_for_the_errors_that_it_names(runs: StubbedRuns) -> None:
    runs.serve(call_api=failing("AnotherError"))
    run_id = begin(runs, "retry")
    assert runs.outcome(run_id)[0] == "failed"
    assert len(runs.calls("call_api")) == 1


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (None, "done"),
        ("CustomError", "a custom error"),
        ("TIMEOUT", "it took too long"),
        ("Lambda.Unknown", "it did not work"),
    ],
)
def test_catch_goes_on_as_the_error_says(runs: StubbedRuns, code: str | None, value: str) -> None:
    runs.serve(call_api=failing(code))
    assert runs.outcome(begin(runs, "catch")) == ("completed", value)


@pytest.mark.parametrize(
    ("fails", "cancelled"),
    [
        (None, []),
        ("book_hotel", []),
        ("book_flight", ["cancel_hotel"]),
        ("book_car", ["cancel_flight", "cancel_hotel"]),
    ],
)
def test_a_saga_cancels_what_was_booked_the_last_one_first(
    runs: StubbedRuns, fails: str | None, cancelled: list[str]
) -> None:
    def booking(task: str) -> Callable[[], str]:
        return failing("SOLD_OUT" if task == fails else None, result=task.removeprefix("book_"))

    booked = {each: booking(each) for each in ("book_hotel", "book_flight", "book_car")}
    runs.serve(**booked, cancel_flight=lambda booking: None, cancel_hotel=lambda booking: None)
    run_id = begin(runs, "saga")
    assert [task for task, _ in runs.called if task.startswith("cancel")] == cancelled
    if fails is None:
        assert runs.outcome(run_id) == ("completed", {"hotel": "hotel", "flight": "flight", "car": "car"})
    else:
        assert runs.outcome(run_id)[0] == "failed"
        assert runs.failure(run_id, fails.removeprefix("book_")) == ("SOLD_OUT", "it did not work")


# --- calls that go on elsewhere, people, jobs -------------------------------------------------------------


def test_a_task_token_takes_one_result_from_the_other_system(runs: StubbedRuns) -> None:
    urls: list[str] = []

    def ask_other_system(ctx: Context, order: int) -> Suspend:
        urls.append(ctx.callback_url)
        return Suspend.callback()

    runs.serve(ask_other_system=ask_other_system, use_answer=lambda answer: answer)
    run_id = begin(runs, "task-token", {"order": 17})
    assert runs.step(run_id, "ask") == "waiting"
    assert runs.report(urls[0], {"status": "completed", "result": {"price": 5}})
    assert runs.outcome(run_id) == ("completed", {"price": 5})
    assert not runs.report(urls[0], {"status": "completed", "result": {"price": 5}})
    with pytest.raises(CallbackTaken):
        runs.report(urls[0], {"status": "completed", "result": {"price": 6}})


def test_a_task_token_that_nobody_uses_times_out(runs: StubbedRuns) -> None:
    def ask_other_system(ctx: Context, order: int) -> Suspend:
        return Suspend.callback()

    runs.serve(ask_other_system=ask_other_system, use_answer=lambda answer: answer)
    run_id = begin(runs, "task-token", {"order": 17})
    runs.wait(hours=1, seconds=1)
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "ask")[0] == "WAIT_TIMEOUT"


@pytest.mark.parametrize(("is_approval", "called"), [(True, "deploy"), (False, "tell_author")])
def test_a_person_decides_whether_a_version_is_deployed(
    runs: StubbedRuns, is_approval: bool, called: str
) -> None:
    runs.serve(
        prepare_deployment=lambda version: {"tests": "green"},
        deploy=lambda version: f"{version} is deployed",
        tell_author=lambda reason: reason,
    )
    run_id = begin(runs, "human-approval", {"version": "1.2"})
    with pytest.raises(Forbidden):
        runs.vote(run_id, "ok", by="bob")
    runs.vote(run_id, "ok", is_approval, by="ann", groups=["operations"], comment="on a Friday")
    assert runs.outcome(run_id)[0] == "completed"
    assert [task for task, _ in runs.called] == ["prepare_deployment", called]


@pytest.mark.parametrize(("end", "status"), [("SUCCEEDED", "completed"), ("FAILED", "failed")])
def test_a_job_poller_looks_again_after_some_time_until_the_job_has_ended(
    runs: StubbedRuns, end: str, status: str
) -> None:
    looks = iter(["SUBMITTED", "RUNNING", end, end])
    runs.serve(submit_job=lambda name: f"{name}-1", get_job_status=lambda job: next(looks))
    run_id = begin(runs, "job-poller", {"jobName": "render", "seconds": 60})
    for number in range(3):
        assert len(runs.calls("get_job_status")) == number
        runs.wait(seconds=61)
    assert runs.outcome(run_id)[0] == status
    if end == "FAILED":
        assert runs.failure(run_id, "succeeded") == ("JOB_FAILED", "job render-1 failed")
    else:
        assert runs.outcome(run_id) == ("completed", "SUCCEEDED")
