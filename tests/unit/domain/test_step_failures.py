"""The error of a run that went on after a failure says what failed, where and why."""

from __future__ import annotations

from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.domain.step_failures import Cause, Failures, of_a_step, without_attempts

REVIEW = Cause("review", "OperationalError", 39, UUID(int=1), "Error 111 connecting to db\nand a second line")
CHARGE = Cause("charge", "HTTP_422", 4, UUID(int=2), "no such card")
SEND = Cause("send", None, 1, UUID(int=3), None)


def test_the_causes_with_the_most_task_runs_are_named() -> None:
    error = Failures([REVIEW, CHARGE, SEND], 47, 0, of=1_403).to_error()
    assert error["message"] == (
        "47 of 1,403 task runs failed: 39 at step review: OperationalError: Error 111 connecting to db; "
        "4 at step charge: HTTP_422: no such card; 1 at step send; 3 at other steps or with other errors"
    )
    assert error["code"] == "STEP_FAILED"
    assert "stepId" not in error
    details = error["details"]
    assert (details["failed"], details["taskRuns"]) == (47, 1_403)
    assert details["causes"][1] == {
        "stepId": "charge",
        "errorCode": "HTTP_422",
        "message": "no such card",
        "failed": 4,
        "taskRunId": ids.show(ids.TASK_RUN, UUID(int=2)),
    }


def test_one_cause_of_all_is_named_with_its_step() -> None:
    error = Failures([CHARGE], 4, 0, of=9).to_error()
    assert error["message"] == "4 of 9 task runs failed, all at step charge: HTTP_422: no such card"
    assert error["stepId"] == "charge"


def test_one_task_run_is_told_as_where_the_run_fails_fast() -> None:
    error = Failures([Cause("charge", "HTTP_422", 1, UUID(int=2), "no such card")], 1, 0, of=9).to_error()
    assert error == {
        "code": "STEP_FAILED",
        "message": "step charge failed: HTTP_422: no such card",
        "stepId": "charge",
        "taskRunId": ids.show(ids.TASK_RUN, UUID(int=2)),
    }


def test_what_was_cancelled_is_not_called_failed() -> None:
    removed = Cause("load", "TASK_REMOVED", 2, UUID(int=4), "task 'load' was removed")
    assert Failures([removed], 2, 2, of=9).to_error()["message"] == (
        "2 of 9 task runs were cancelled, all at step load: TASK_REMOVED: task 'load' was removed"
    )
    assert (
        Failures([CHARGE, removed], 6, 2, of=9)
        .to_error()["message"]
        .startswith("6 of 9 task runs failed or were cancelled: 4 at step charge")
    )
    assert of_a_step("load", "TASK_REMOVED", "task 'load' was removed", is_cancelled=True) == (
        "step load was cancelled: TASK_REMOVED: task 'load' was removed"
    )


def test_long_messages_are_cut() -> None:
    long = Cause("load", "X", 2, UUID(int=4), "a" * 10_000)
    error = Failures([long], 2, 0, of=2).to_error()
    assert len(error["message"]) < 300
    assert error["details"]["causes"][0]["message"].endswith("a…")


def test_a_pause_says_which_step_has_no_attempt_left_in_one_line() -> None:
    assert without_attempts("charge", "HTTP_422", "no such card\nat all") == (
        "step charge has no attempt left: HTTP_422: no such card"
    )
    assert without_attempts("m", None, None, others=2) == "step m (and 2 more) has no attempt left"
    assert len(without_attempts("x" * 200, "C" * 2_000, "m" * 9_000)) == 1_000
