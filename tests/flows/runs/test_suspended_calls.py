"""Real workers whose calls suspend themselves, the API that takes reports, and a server that is polled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import urllib3
from support.api_server import running_api
from support.live_stack import LiveStack
from support.servers import wait_until
from support.stub_http_server import serving

from pipeweave.up.ports import free_port


@pytest.fixture(scope="module")
def stack(empty_stack: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack with a beat, the API, and two workers that know its address."""
    with running_api(empty_stack.settings, tmp_path_factory.mktemp("api")) as api:
        empty_stack.variables["PIPEWEAVE_ORCHESTRATOR_URL"] = api.url
        empty_stack.start_beat()
        for _ in range(2):
            empty_stack.start_worker("suspending.py", concurrency=1)
        yield empty_stack


def begin(stack: LiveStack, step: dict[str, Any], **input: Any) -> UUID:
    steps = [{"id": "ask", **step}, {"id": "end", "task": "noop", "needs": ["ask"]}]
    stack.store({"id": f"of-{step['task']}", "steps": steps})
    return stack.trigger(f"of-{step['task']}", input)


def read(place: Path) -> str:
    """The URL that a call has told."""
    wait_until(place.exists, what=str(place))
    return place.read_text()


def report(url: str, body: Any) -> int:
    return urllib3.request("POST", url, json=body, retries=False).status


def waiting(stack: LiveStack, run_id: UUID, attempt: int = 1) -> None:
    stack.until(
        lambda: (
            (stack.steps(run_id)["ask"].status, stack.steps(run_id)["ask"].attempt) == ("waiting", attempt)
        ),
        "the step does not wait",
    )


def test_a_run_goes_on_with_what_is_reported(stack: LiveStack, tmp_path: Path) -> None:
    run_id = begin(stack, {"task": "ask"}, told=str(tmp_path))
    url = read(tmp_path / "1")
    waiting(stack, run_id)
    assert report(url, {"status": "completed", "result": {"score": 3}}) == 202
    assert stack.finished(run_id).status == "completed"
    assert (stack.steps(run_id)["ask"].output, stack.called(run_id)) == ({"score": 3}, {"ask": 1, "end": 1})
    assert report(url, {"status": "completed", "result": {"score": 3}}) == 200
    assert report(url, 4) == 409


def test_a_report_that_comes_while_the_call_is_under_way_is_kept(stack: LiveStack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = begin(stack, {"task": "ask"}, told=str(tmp_path), hold=str(gate))
    assert report(read(tmp_path / "1"), 5) == 202
    assert stack.steps(run_id)["ask"].status == "running"
    gate.touch()
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["ask"].output == 5


def test_an_async_task_suspends_itself_too(stack: LiveStack, tmp_path: Path) -> None:
    run_id = begin(stack, {"task": "ask_async"}, told=str(tmp_path))
    assert report(read(tmp_path / "async"), "done") == 202
    assert stack.finished(run_id).status == "completed"


def test_a_failure_is_tried_again_with_another_url(stack: LiveStack, tmp_path: Path) -> None:
    run_id = begin(stack, {"task": "ask"}, told=str(tmp_path))
    first = read(tmp_path / "1")
    assert report(first, {"status": "failed", "error": "no paper"}) == 202
    second = read(tmp_path / "2")
    assert second != first
    assert report(first, 7) == 409
    assert report(second, 7) == 202
    assert stack.finished(run_id).status == "completed"
    assert [each.error_code for each in stack.attempts(run_id)] == ["ASYNC_FAILED"]


def test_a_worker_that_is_killed_between_result_and_turn_leaves_another_attempt(
    stack: LiveStack, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = begin(stack, {"task": "ask"}, told=str(tmp_path), hold=str(gate))
    first = read(tmp_path / "1")
    assert report(first, "of the first attempt") == 202
    ask = stack.steps(run_id)["ask"]
    blocked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with stack.deployment.database.transaction() as tx:
        key = {"run": run_id, "id": ask.id}
        tx.execute("SELECT 1 FROM task_runs WHERE run_id = :run AND id = :id FOR UPDATE", key)
        gate.touch()
        stack.until(lambda: bool(stack.rows(blocked)), "the turn did not begin")
        host = ask.worker.rpartition("#")[0]
        [pid] = [each.pid for each in stack.rows("SELECT pid FROM workers WHERE id = :id", id=host)]
        stack.kill(pid)
    stack.start_worker("suspending.py", concurrency=1)
    second = read(tmp_path / "2")
    assert report(first, 7) == 409
    waiting(stack, run_id, attempt=2)
    assert report(second, "of the second") == 202
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["ask"].output == "of the second"


def test_a_map_of_suspended_items_ends_with_the_last_report(stack: LiveStack, tmp_path: Path) -> None:
    step = {"task": "ask", "map": {"over": [1, 2, 3], "as": "number"}, "params": {"told": str(tmp_path)}}
    stack.store({"id": "of-items", "steps": [{"id": "ask", **step}, {"id": "end", "task": "noop"}]})
    run_id = stack.trigger("of-items")
    for index in (2, 0, 1):
        assert report(read(tmp_path / f"1-{index}"), index * 10) == 202
    assert stack.finished(run_id).status == "completed"
    assert sorted(each.output for each in stack.items(run_id, "ask")) == [0, 10, 20]


def test_a_server_that_comes_and_goes_is_polled_until_it_answers(stack: LiveStack) -> None:
    with serving() as jobs:
        jobs.put(
            "GET /jobs/7?key=1",
            (503, {}),
            (200, {"status": "running"}),
            (200, b"no JSON"),
            (200, {"status": "completed", "n": 1}),
        )
        run_id = begin(stack, {"task": "poll"}, url=f"{jobs.url}/jobs/7?key=1")
        assert stack.finished(run_id).status == "completed"
        assert stack.steps(run_id)["ask"].output == {"status": "completed", "n": 1}
        assert len(jobs.asked) == 4


def test_a_literal_suspends_where_the_step_says_async(stack: LiveStack) -> None:
    with serving() as jobs:
        jobs.put("GET /job", (200, {"status": "completed"}))
        pending = {"status": "pending", "poll_url": f"{jobs.url}/job"}
        run_id = begin(stack, {"task": "says", "async": {}}, pending=pending)
        assert stack.finished(run_id).status == "completed"
        assert stack.steps(run_id)["ask"].output == {"status": "completed"}
        neither = begin(stack, {"task": "says", "async": {}}, pending={"status": "pending"})
        assert stack.finished(neither).status == "failed"
        assert stack.steps(neither)["ask"].error_code == "INVALID_ASYNC_RESULT"
        plain = begin(stack, {"task": "says"}, pending=pending)
        assert stack.finished(plain).status == "completed"
        assert stack.steps(plain)["ask"].output == pending


def test_an_http_worker_suspends_itself_too(stack: LiveStack, tmp_path: Path) -> None:
    from pipeweave.orchestrator.security import access_tokens
    from pipeweave.orchestrator.security.access_tokens import WORKER

    tenant = stack.settings.tenant
    with stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="worker", tenants=[tenant], scopes=[WORKER])
    url = f"{stack.variables['PIPEWEAVE_ORCHESTRATOR_URL']}/w/{tenant}/{token}"
    stack.start_http_worker("suspending_http.py", "elsewhere", url, free_port())
    run_id = begin(stack, {"task": "http_ask"}, told=str(tmp_path))
    told = read(tmp_path / "1")
    assert token not in told
    waiting(stack, run_id)
    assert report(told, 9) == 202
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["ask"].output == 9
