"""`pipeweave.testing` ends waits at once: by what a test gives, or as if their time were over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeweave import (
    TaskError,
    approval,
    otherwise,
    pipeline,
    sleep,
    sleep_until,
    task,
    transform,
    wait_for_signal,
    when,
)
from pipeweave.errors import InputValidationFailed, InvalidInput
from pipeweave.testing import run_pipeline

NOW = datetime(2030, 1, 31, 8, tzinfo=UTC)
HOUR_MS = 3_600_000


@dataclass
class Decision:
    amount: float
    reason: str = ""


@task
def act(value: Any = None) -> Any:
    return value


@pipeline
def parcel(order: str) -> Any:
    arrived = wait_for_signal("delivered-${input.order}", "returned", timeout="10d")
    with when(arrived["name"] == "returned"):
        ok = approval(
            "Refund ${input.order}?",
            form=Decision,
            assignees=["ann"],
            timeout="2d",
            default={"approved": None},
        )
    with otherwise():
        act.options(step_id="thank")()
    return {"way": arrived["name"], "paid": ok["approved"]}


def test_a_signal_ends_the_wait_for_one_of_its_names() -> None:
    result = run_pipeline(parcel, {"order": "o1"}, signals={"delivered-o1": {"by": "bike"}}, now=NOW)
    assert result.output == {"way": "delivered-o1", "paid": None}
    assert result.steps["signal"].output == {
        "name": "delivered-o1",
        "payload": {"by": "bike"},
        "by": None,
        "at": "2030-01-31T08:00:00.000Z",
    }
    assert result.steps["signal"].waited_ms == 0


def test_a_person_decides_as_the_test_says() -> None:
    decision = {"approved": True, "by": "ann", "form": {"amount": 5}, "comment": "fine"}
    result = run_pipeline(parcel, {"order": "o1"}, signals={"returned": 1}, approvals={"approval": decision})
    assert result.output == {"way": "returned", "paid": True}
    output = result.steps["approval"].output
    assert (output["choice"], output["by"], output["form"]) == ("approve", "ann", {"amount": 5})
    refused = run_pipeline(parcel, {"order": "o1"}, signals={"returned": 1}, approvals={"approval": False})
    assert refused.output == {"way": "returned", "paid": False}


def test_what_does_not_come_ends_with_its_default_or_fails() -> None:
    undecided = run_pipeline(parcel, {"order": "o1"}, signals={"returned": 1})
    assert undecided.steps["approval"].output == {"approved": None}
    assert undecided.steps["approval"].waited_ms == 48 * HOUR_MS
    silent = run_pipeline(parcel, {"order": "o1"})
    assert silent.steps["signal"].status == "timeout"
    assert isinstance(silent.error, TaskError)
    assert silent.error.task_code == "WAIT_TIMEOUT"


def test_each_signal_ends_one_wait_the_oldest_first() -> None:
    @pipeline(id="twice")
    def twice() -> Any:
        one = wait_for_signal("paid", "cancelled", step_id="one")
        two = wait_for_signal("paid", step_id="two", needs=[one], default=None)
        return [one["payload"], two]

    given = [("cancelled", 1), ("paid", 2)]
    assert run_pipeline(twice, signals=given).output[0] == 1
    assert run_pipeline(twice, signals={"paid": 2}).output == [2, None]


def test_a_signal_that_no_wait_could_take_is_refused_with_the_nearest_name() -> None:
    @pipeline(id="outer")
    def outer(order: str) -> Any:
        return parcel(order)

    with pytest.raises(InvalidInput, match="'outer' waits for no signal 'retruned'") as refused:
        run_pipeline(outer, {"order": "o1"}, signals=[("returned", 1), ("retruned", 1)])
    assert refused.value.hint == "did you mean 'returned'?"
    with pytest.raises(InvalidInput, match="waits for no signal"):
        run_pipeline(outer, {"order": "o1"}, signals={"deliverd-o1": 1})
    assert run_pipeline(outer, {"order": "o1"}, signals=iter([("returned", 1)])).output["way"] == "returned"


def test_a_wait_in_what_ends_a_run_or_takes_care_of_an_error_takes_signals() -> None:
    waiting = {"steps": [{"id": "w", "signal": "${input.name}"}]}
    document = {"id": "p", "steps": [{"task": "act"}], "finally": waiting}
    assert run_pipeline(document, {"name": "x"}, signals={"x": 1}).status == "completed"
    of_error = {"id": "q", "steps": [{"task": "act", "onError": {"steps": [{"signal": "go"}]}}]}
    assert run_pipeline(of_error, signals={"go": 1}).status == "completed"
    with pytest.raises(InvalidInput, match="waits for no signal 'stop'") as refused:
        run_pipeline(of_error, signals={"stop": 1})
    assert refused.value.hint == "its waits take go"


def test_sleeps_move_the_clock_of_the_run_on() -> None:
    @pipeline(id="sleepy")
    def sleepy(seconds: int) -> Any:
        a = sleep("1h", step_id="a")
        b = sleep(seconds, step_id="b")
        c = sleep_until(NOW + timedelta(hours=5), step_id="c", needs=[a])
        early = transform("${text(now())}", step_id="early", needs=[a, b], join="any")
        late = transform("${text(now())}", step_id="late", needs=[b, c])
        return [early, late]

    result = run_pipeline(sleepy, {"seconds": 7_200}, now=NOW)
    assert [result.steps[each].waited_ms // HOUR_MS for each in "abc"] == [1, 2, 4]
    assert [each[11:16] for each in result.output] == ["09:00", "13:00"]


def test_a_time_that_is_over_ends_a_sleep_at_once() -> None:
    @pipeline(id="late")
    def late() -> Any:
        return sleep_until("2020-01-01T00:00:00Z", step_id="nap")

    assert run_pipeline(late).steps["nap"].waited_ms == 0


@pytest.mark.parametrize("moment", ["soon", "2030-01-01T00:00:00", 5, None])
def test_a_value_that_is_no_time_fails_the_sleep(moment: Any) -> None:
    @pipeline(id="sleepy")
    def sleepy(at: Any) -> Any:
        sleep_until(at)

    error = run_pipeline(sleepy, {"at": moment}).error
    assert "cannot sleep until" in str(error)


def test_a_no_fails_an_approval_that_says_so() -> None:
    @pipeline(id="strict")
    def strict() -> Any:
        approval("Well?", on_reject="fail", step_id="ok")

    error = run_pipeline(strict, approvals={"ok": {"approved": False, "by": "ann", "comment": "no"}}).error
    assert isinstance(error, TaskError)
    assert (error.task_code, str(error)) == ("REJECTED", "ann rejected it: no")


def test_an_approval_with_options_is_decided_by_one_of_them() -> None:
    @pipeline(id="options")
    def options() -> Any:
        return approval("What now?", options=["ship", "hold"], step_id="what")["choice"]

    assert run_pipeline(options, approvals={"what": {"choice": "hold"}}).output == "hold"
    with pytest.raises(InvalidInput, match="must be one of ship, hold"):
        run_pipeline(options, approvals={"what": True})


def test_every_option_needs_the_form() -> None:
    @pipeline(id="with_form")
    def with_form() -> None:
        approval("What now?", options=["ship", "reject"], form=Decision, step_id="what")

    for decision in ({"choice": "reject"}, {"choice": "reject", "approved": False}):
        with pytest.raises(InputValidationFailed, match=r"form\.amount: is required"):
            run_pipeline(with_form, approvals={"what": decision})


def test_a_decision_is_checked_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match="no approval 'aproval'") as unknown:
        run_pipeline(parcel, {"order": "o1"}, approvals={"aproval": True})
    assert "approval" in str(unknown.value.hint)
    with pytest.raises(InputValidationFailed, match=r"approvals\.approval\.form\.amount"):
        run_pipeline(parcel, {"order": "o1"}, approvals={"approval": {"form": {"amount": "x"}}})
    with pytest.raises(InvalidInput, match="is no part of a decision"):
        run_pipeline(parcel, {"order": "o1"}, approvals={"approval": {"aproved": True}})
