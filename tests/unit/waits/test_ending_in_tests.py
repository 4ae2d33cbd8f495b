"""`pipeweave.testing` ends waits with the outputs and errors that the table of endings gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeweave import ids
from pipeweave.errors import TaskError
from pipeweave.orchestrator.domain.waits import Signal, Wait
from pipeweave.orchestrator.waits.ending import Completes, Fails, decide
from pipeweave.testing import run_pipeline

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
RUN = ids.new_id()


def wait(kind: Any, **data: Any) -> Wait:
    end = BEGAN + timedelta(days=1)
    return Wait(RUN, ids.task_run_id(RUN, 1), "t", RUN, 1, kind, ("paid",), end, end, data, BEGAN)


def question(**data: Any) -> Wait:
    return wait("approval", **{"needs": 1, "options": [], "failsWhenRejected": False} | data)


def sent(payload: Any, by: str | None = None) -> Signal:
    return Signal(ids.new_id(), "paid", payload, None, by, BEGAN, by or "")


def run_here(step: dict[str, Any], **outside: Any) -> Any:
    document = {"id": "p", "steps": [{"id": "w", **step}]}
    return run_pipeline(document, now=BEGAN, **outside).steps["w"]


def test_a_signal_gives_the_same_output() -> None:
    end = decide(wait("signal"), (sent({"n": 1}),), BEGAN)
    assert isinstance(end, Completes)
    assert run_here({"signal": "paid"}, signals={"paid": {"n": 1}}).output == end.output


@pytest.mark.parametrize("choice", ["approve", "reject"])
def test_a_decision_gives_the_same_output(choice: str) -> None:
    end = decide(question(), (sent({"choice": choice, "comment": "so"}, "ann"),), BEGAN)
    assert isinstance(end, Completes)
    decision = {"approved": choice == "approve", "by": "ann", "comment": "so"}
    assert run_here({"approval": {"title": "Well?"}}, approvals={"w": decision}).output == end.output


def test_an_option_gives_the_same_output() -> None:
    options = {"options": ["ship", "reject"]}
    for choice in options["options"]:
        end = decide(question(**options, failsWhenRejected=True), (sent({"choice": choice}, "ann"),), BEGAN)
        assert isinstance(end, Completes)
        step = {"approval": {"title": "Well?", "onReject": "fail", **options}}
        assert run_here(step, approvals={"w": {"choice": choice, "by": "ann"}}).output == end.output


def test_a_no_that_fails_gives_the_same_error() -> None:
    end = decide(question(failsWhenRejected=True), (sent({"choice": "reject"}, "ann"),), BEGAN)
    assert isinstance(end, Fails)
    step = {"approval": {"title": "Well?", "onReject": "fail"}}
    error = run_here(step, approvals={"w": {"approved": False, "by": "ann"}}).error
    assert isinstance(error, TaskError)
    failure = end.failure
    assert (error.task_code, str(error), error.details) == (failure.code, failure.message, failure.details)


@pytest.mark.parametrize(
    ("step", "waiting"),
    [
        ({"signal": {"name": "paid", "timeout": "1d"}}, wait("signal")),
        ({"approval": {"title": "Well?", "timeout": "1d"}}, question()),
    ],
)
def test_a_time_that_is_over_gives_the_same_error(step: dict[str, Any], waiting: Wait) -> None:
    end = decide(waiting, (), BEGAN + timedelta(days=1))
    assert isinstance(end, Fails)
    result = run_here(step)
    assert result.status == "timeout"
    assert isinstance(result.error, TaskError)
    assert (result.error.task_code, str(result.error)) == (end.failure.code, end.failure.message)
