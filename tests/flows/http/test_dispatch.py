"""Runs whose steps are executed by HTTP workers, as the original Node SDK is one."""

from __future__ import annotations

import pytest
from support.http_service import NO_REPORT, Dispatch, TaskFailed, http_service
from support.live_stack import LiveStack

from pipeweave import ids, signatures
from pipeweave.orchestrator.diagnosis import verify


def until_noted(stack: LiveStack, dispatch: Dispatch) -> None:
    """Wait until the process that dispatched has noted that the service took it: a report may come sooner."""
    run_id = ids.read(ids.RUN, dispatch.body["pipelineRunId"])
    steps = [row for row in stack.task_runs(run_id) if row.status == "running"]
    assert len(steps) == 1
    stack.until(lambda: stack.steps(run_id)[steps[0].step_id].dispatched_at is not None, "nobody noted it")


@pytest.mark.parametrize("uses_older_paths", [False, True], ids=["newer paths", "older paths"])
def test_an_unmodified_worker_runs_a_chain(
    http_stack: LiveStack, orchestrator_url: str, secret: str, uses_older_paths: bool
) -> None:
    name, first, second = (f"{each}-{uses_older_paths}" for each in ("chain", "double", "describe"))

    def double(dispatch: Dispatch) -> int:
        until_noted(http_stack, dispatch)
        return int(dispatch.input["number"]) * 2

    def describe(dispatch: Dispatch) -> str:
        return f"{dispatch.upstream[first]} from {dispatch.input['number']}"

    tasks = {first: double, second: describe}
    with http_service(
        orchestrator_url, secret, tasks, service_id=name, uses_older_paths=uses_older_paths
    ) as service:
        status, answer = service.register()
        assert (status, answer["codeChanges"]) == (200, [])
        run = http_stack.ran({"id": name, "steps": [{"task": first}, {"task": second}]}, {"number": 21})
    steps = http_stack.steps(run.id)
    assert (run.status, steps[second].output) == ("completed", "42 from 21")
    assert steps[first].worker == f"{name} {service.url}"
    assert steps[first].dispatched_at is not None
    [dispatch, _] = service.dispatches
    assert dispatch.body["pipelineRunId"] == ids.show(ids.RUN, run.id)
    assert dispatch.body["attempt"] == 1
    assert dispatch.body["previousAttempts"] == []


def test_a_pipeline_mixes_celery_tasks_and_http_tasks(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    tasks = {"remote": lambda dispatch: {"seen": dispatch.upstream["before"]}}
    steps = [
        {"id": "before", "task": "noop"},
        {"id": "away", "task": "remote"},
        {"id": "after", "task": "noop"},
    ]
    with http_service(orchestrator_url, secret, tasks, service_id="mixed") as service:
        service.register()
        run = http_stack.ran({"id": "mixed", "steps": steps}, {"a": 1})
    assert run.status == "completed"
    assert http_stack.steps(run.id)["away"].output == {"seen": "before"}
    assert http_stack.called(run.id) == {"before": 1, "after": 1}


def test_a_dispatch_is_signed_for_its_path_and_body(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    with http_service(orchestrator_url, secret, {"signed": lambda _: 1}, service_id="signing") as service:
        service.register()
        http_stack.ran({"id": "signing", "steps": [{"task": "signed"}]})
    [headers] = service.headers
    assert headers["path"] == "/tasks/signed"
    assert headers["X-PipeWeave-Tenant"] == http_stack.settings.tenant
    at = int(headers[signatures.HEADER].partition(",")[0].removeprefix("t="))
    assert not signatures.is_valid(secret, headers[signatures.HEADER], "/tasks/signed", b"{}", at)


def test_a_failed_attempt_is_tried_again_and_told_of_the_failure(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    def flaky(dispatch: Dispatch) -> str:
        if dispatch.body["attempt"] == 1:
            until_noted(http_stack, dispatch)
            raise TaskFailed("no money", "DECLINED")
        return str(dispatch.body["previousAttempts"][0]["errorCode"])

    with http_service(orchestrator_url, secret, {"flaky": flaky}, service_id="flaky") as service:
        service.register()
        run = http_stack.ran({"id": "flaky", "steps": [{"task": "flaky"}]})
    [task_run] = http_stack.task_runs(run.id)
    assert (task_run.output, task_run.attempt) == ("DECLINED", 2)
    first, second = (each.run_id for each in service.dispatches)
    assert first != second, "a late report must name its attempt"
    [attempt] = http_stack.attempts(run.id)
    assert (attempt.error_code, attempt.dispatched_at is not None) == ("DECLINED", True)


def test_a_late_or_repeated_report_changes_nothing_and_is_told_so(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    with http_service(orchestrator_url, secret, {"told": lambda _: NO_REPORT}, service_id="told") as service:
        service.register()
        http_stack.store({"id": "told", "steps": [{"task": "told"}]})
        run_id = http_stack.trigger("told")
        http_stack.until(lambda: bool(service.of("told")), "it was not dispatched")
        [dispatch] = service.of("told")
        assert service.heartbeat(dispatch.run_id, progress=40, message="page 4")[1] == {
            "acknowledged": True,
            "shouldCancel": False,
        }
        assert dispatch.succeed("first")[0] == 200
        http_stack.finished(run_id)
        assert dispatch.succeed("second")[1]["isRepeated"] is True
        status, problem = dispatch.fail("too late")
        assert (status, problem["code"]) == (409, "STALE_REPORT")
        assert service.heartbeat(dispatch.run_id)[1]["shouldCancel"] is True
        forged = dispatch.run_id[:-1] + ("A" if dispatch.run_id[-1] != "A" else "B")
        assert service.report(forged, {"status": "failed"})[0] == 401
    [task_run] = http_stack.task_runs(run_id)
    assert (task_run.status, task_run.output, task_run.progress) == ("completed", "first", 40)


@pytest.mark.parametrize(
    ("answer", "code", "attempts"),
    [
        ((500, {}), "DISPATCH_FAILED", 2),
        ((400, {}), "DISPATCH_REFUSED", 1),
        ((302, {"Location": "http://localhost:1/"}), "DISPATCH_REFUSED", 1),
    ],
    ids=["500", "400", "redirect"],
)
def test_a_refused_dispatch_is_tried_again_where_that_may_help(
    http_stack: LiveStack,
    orchestrator_url: str,
    secret: str,
    answer: tuple[int, dict[str, str]],
    code: str,
    attempts: int,
) -> None:
    name = f"refusing-{answer[0]}"
    with http_service(orchestrator_url, secret, {name: lambda _: 1}, service_id=name) as service:
        service.answer = lambda _: answer
        service.register(retries=1)
        run = http_stack.ran({"id": name, "steps": [{"task": name}]})
    [letter] = http_stack.dead_letters(run.id)
    assert (run.status, letter.error_code, letter.attempts) == ("failed", code, attempts)


def test_a_worker_that_is_full_uses_up_no_attempt(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    refused = 0

    def full_at_first(_: Dispatch) -> tuple[int, dict[str, str]] | None:
        nonlocal refused
        refused += 1
        return (429, {"Retry-After": "0"}) if refused <= 6 else None

    with http_service(orchestrator_url, secret, {"full": lambda _: 1}, service_id="full") as service:
        service.answer = full_at_first
        service.register(retries=0)
        run = http_stack.ran({"id": "full", "steps": [{"task": "full"}]})
    [task_run] = http_stack.task_runs(run.id)
    assert (run.status, task_run.attempt) == ("completed", 1)
    assert http_stack.attempts(run.id) == []
    assert len(service.dispatches) == 7


def test_a_wide_fan_out_joins_when_all_reports_came(
    http_stack: LiveStack, orchestrator_url: str, secret: str
) -> None:
    tasks = {
        "part": lambda dispatch: dispatch.input,
        "whole": lambda dispatch: len(dispatch.upstream["parts"]),
    }
    steps = [
        {"id": "parts", "task": "part", "map": "${input.numbers}"},
        {"id": "whole", "task": "whole"},
    ]
    with http_service(orchestrator_url, secret, tasks, service_id="wide") as service:
        service.register()
        run = http_stack.ran({"id": "wide", "steps": steps}, {"numbers": list(range(60))})
    assert (run.status, http_stack.steps(run.id)["whole"].output) == ("completed", 60)
    assert [each.output for each in http_stack.items(run.id, "parts")] == list(range(60))


def test_events_say_the_same_as_rows(http_stack: LiveStack, orchestrator_url: str, secret: str) -> None:
    """Of all runs so far: those that failed, were tried again or ran elsewhere."""
    tasks = {"seen": lambda _: 1}
    with http_service(orchestrator_url, secret, tasks, service_id="seen") as service:
        service.register()
        run = http_stack.ran({"id": "seen", "steps": [{"task": "seen"}]})
    with verify.snapshot(http_stack.deployment.database) as tx:
        assert verify.run(tx, run.id) == []
        assert list(verify.all_runs(tx)) == []
