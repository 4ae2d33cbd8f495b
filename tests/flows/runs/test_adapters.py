"""Real workers run adapters, those that PipeWeave brings and one of the user's; real servers answer them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
import urllib3
from support.api_server import running_api
from support.live_stack import LiveStack
from support.stub_http_server import Served, serving

from pipeweave.errors import InvalidSpec
from pipeweave.size_limits import MAX_ACTION_ANSWER_BYTES

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack with a beat, the API, and a worker that has the adapters and knows the address of the API."""
    with running_api(empty_stack.settings, tmp_path_factory.mktemp("api")) as api:
        empty_stack.variables["PIPEWEAVE_ORCHESTRATOR_URL"] = api.url
        empty_stack.start_beat()
        empty_stack.start_worker("adapting.py", "--adapters", concurrency=2)
        yield empty_stack


@pytest.fixture
def other() -> Iterator[Served]:
    """Another system."""
    with serving() as served:
        yield served


def act(adapter: str, action: str, **params: Any) -> dict[str, Any]:
    return {"id": "act", "adapter": adapter, "action": action, "params": params}


def ran(stack: LiveStack, *steps: dict[str, Any], **more: Any) -> Any:
    """The task run of the step `act`, once its run has ended; `more` is the input of the run."""
    run = stack.ran({"id": f"of-{steps[0]['adapter']}", "steps": list(steps)}, more or None)
    return stack.steps(run.id)["act"]


def test_a_step_calls_an_action_of_the_users_adapter(stack: LiveStack) -> None:
    step = act("payments", "charge", amount="${item}")
    run = stack.ran({"id": "charges", "steps": [{**step, "map": {"over": [1, 2, 3, 4]}}]})
    assert run.status == "completed", stack.logs()
    outputs = [each.output for each in stack.items(run.id, "act")]
    assert [each["amount"] for each in outputs] == [1, 2, 3, 4]
    of_one = [each["taken"] for each in outputs if each["pid"] == outputs[0]["pid"]]
    assert sorted(of_one) == list(range(1, len(of_one) + 1)), "one object took all calls of its process"


def test_what_fails_for_a_moment_is_tried_again(stack: LiveStack, other: Served) -> None:
    other.put("GET /a", (500, b"oops"), (200, {"total": 7}, JSON))
    retry = {"attempts": 3, "backoff": "fixed", "delay_ms": 20, "retry_on": ["HTTP_500"]}
    row = ran(stack, {**act("http", "request", url=f"{other.url}/a"), "retry": retry})
    assert (row.status, row.attempt, row.output["body"]) == ("completed", 2, {"total": 7})
    assert [each.error_code for each in stack.attempts(row.run_id)] == ["HTTP_500"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((404, b"no such order"), "HTTP_404"),
        ((302, b"", {"Location": "/elsewhere"}), "HTTP_302"),
        ((200, b"x" * (MAX_ACTION_ANSWER_BYTES + 1)), "HTTP_ANSWER_TOO_LARGE"),
    ],
)
def test_what_no_other_try_would_help_fails_at_once(
    stack: LiveStack, other: Served, answer: Any, code: str
) -> None:
    other.put("GET /a", answer)
    row = ran(stack, act("http", "request", url=f"{other.url}/a"))
    assert (row.status, row.attempt, row.error_code) == ("failed", 1, code)
    assert len(other.asked) == 1


def test_params_that_do_not_fit_an_action_are_refused_when_the_pipeline_is_stored(stack: LiveStack) -> None:
    with pytest.raises(InvalidSpec, match="has no parameter 'ulr'"):
        stack.store({"id": "wrong", "steps": [act("http", "request", ulr="http://a")]})
    with pytest.raises(InvalidSpec, match="Adapter not found: htpt"):
        stack.store({"id": "wrong", "steps": [act("htpt", "request", url="http://a")]})
    row = ran(stack, act("http", "request", url="${input.url}"), url="file:///etc/passwd")
    assert (row.status, row.attempt, row.error_code) == ("failed", 1, "INVALID_PARAMS")


def test_many_requests_wait_at_once_in_one_process(stack: LiveStack, other: Served) -> None:
    urls = [f"{other.url}/{number}" for number in range(40)]
    for number in range(40):
        other.put(f"GET /{number}", (200, {"n": number}, JSON))
    step = {"id": "act", "adapter": "http", "action": "request", "map": {"over": urls, "as": "url"}}
    run = stack.ran({"id": "many", "steps": [step]})
    assert run.status == "completed", stack.logs()
    assert [each.output["body"]["n"] for each in stack.items(run.id, "act")] == list(range(40))


def test_a_step_is_handed_over_and_goes_on_with_what_is_reported(stack: LiveStack, other: Served) -> None:
    other.put("POST /webhook/scan", (200, {}))
    run_id = begun(stack, act("webhook", "hand_off", url=f"{other.url}/webhook/scan", data={"plot": 3}))
    stack.until(lambda: stack.steps(run_id)["act"].status == "waiting", "the step does not wait")
    [(_, _, body)] = other.asked
    assert body["data"] == {"plot": 3}
    report = {"status": "completed", "result": {"score": 0.9}}
    assert urllib3.request("POST", body["callbackUrl"], json=report, retries=False).status == 202
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["act"].output == {"score": 0.9}


def begun(stack: LiveStack, step: dict[str, Any]) -> UUID:
    stack.store({"id": "handed-over", "steps": [step]})
    return stack.trigger("handed-over")


def test_a_value_that_one_run_has_stored_is_there_for_the_next(stack: LiveStack) -> None:
    assert ran(stack, act("storage", "put", name="last/id", value=41)).status == "completed"
    row = ran(
        stack,
        {**act("storage", "get", name="last/id"), "id": "last"},
        act("storage", "put", name="last/id", value="${steps.last + 1}"),
    )
    assert row.status == "completed"
    assert ran(stack, act("storage", "get", name="last/id")).output == 42


def test_a_line_is_in_the_log_of_its_step(stack: LiveStack) -> None:
    row = ran(stack, act("log", "write", message="as ordered", fields={"rows": 3}))
    assert row.output == {"message": "as ordered", "level": "info", "fields": {"rows": 3}}
    assert "as ordered" in stack.logs()
