"""`pipeweave.testing` ends calls that suspend themselves: by what a test reports, or by their time."""

from __future__ import annotations

from typing import Any

import pytest
from support.pages import ROOT, blocks

from pipeweave import Context, Retry, Suspend, TaskError, approval, pipeline, task
from pipeweave.authoring import describe
from pipeweave.errors import InvalidAsyncResult, InvalidInput
from pipeweave.testing import RunResult, run_pipeline, run_task

DAY_MS = 86_400_000
HANDED_ON: list[str] = []


@pytest.fixture(autouse=True)
def nothing_handed_on() -> None:
    HANDED_ON.clear()


@task(retries=1)
def scan(ctx: Context, plot: int = 0) -> Suspend:
    HANDED_ON.append(ctx.callback_url)
    return Suspend.callback(timeout="3d")


@task(retries=0)
def train(tries: int = 60) -> Suspend:
    return Suspend.poll("https://training.example/jobs/1", interval="30s", tries=tries, timeout="1h")


@task
def note(value: Any = None) -> Any:
    return value


def ran(*steps: dict[str, Any], callbacks: Any = None, **document: Any) -> RunResult:
    return run_pipeline({"id": "p", "steps": list(steps), **document}, tasks=TASKS, callbacks=callbacks)


TASKS = [scan, train, note]
SCAN = {"id": "scan", "task": "scan", "params": {}}


@pytest.mark.parametrize(
    ("report", "output"),
    [
        ({"status": "completed", "result": {"score": 3}}, {"score": 3}),
        ({"status": "success", "result": [1]}, [1]),
        ({"score": 3}, {"score": 3}),
        (None, None),
        ("done", "done"),
    ],
)
def test_a_report_completes_the_call_with_its_result(report: Any, output: Any) -> None:
    result = ran(SCAN, callbacks={"scan": report})
    assert (result.status, result.output, result.steps["scan"].waited_ms) == ("completed", output, 0)


def test_a_reported_failure_fails_the_attempt_and_the_next_one_has_the_next_report() -> None:
    no = {"status": "failed", "error": {"message": "no money", "iban": "DE1"}}
    result = ran(SCAN, callbacks={"scan": [no, 7]})
    step = result.steps["scan"]
    assert (step.status, step.output, step.attempts) == ("completed", 7, 2)
    [before] = step.previous_attempts
    assert (before["errorCode"], before["error"]) == ("ASYNC_FAILED", "Async operation failed: no money")
    assert before["details"] == {"message": "no money", "iban": "DE1"}
    assert len(set(HANDED_ON)) == 2
    twice = ran(SCAN, callbacks={"scan": no}).steps["scan"]
    assert (twice.status, twice.attempts) == ("failed", 2)


def test_a_report_that_does_not_come_ends_the_attempt_with_its_time() -> None:
    step = ran(SCAN, callbacks={"scan": []}).steps["scan"]
    assert (step.status, step.attempts, step.waited_ms) == ("timeout", 2, 6 * DAY_MS)
    assert describe(step.error).code == "WAIT_TIMEOUT"
    assert "nobody reported to the callback URL within 3 days" in str(step.error)


def test_a_poll_gives_the_whole_answer() -> None:
    answer = {"status": "completed", "model": "m1"}
    assert ran({"id": "t", "task": "train", "params": {}}, callbacks={"t": answer}).output == answer
    failed = ran({"id": "t", "task": "train", "params": {}}, callbacks={"t": {"status": "failed"}})
    assert describe(failed.error).code == "ASYNC_FAILED"


@pytest.mark.parametrize(
    ("tries", "code", "waited_ms"), [(10, "POLL_TRIES_EXCEEDED", 300_000), (200, "WAIT_TIMEOUT", 3_600_000)]
)
def test_a_poll_without_a_final_answer_ends_with_its_tries_or_its_time(
    tries: int, code: str, waited_ms: int
) -> None:
    params = {"tries": tries}
    result = ran({"id": "t", "task": "train", "params": params}, callbacks={"t": {"status": "working"}})
    step = result.steps["t"]
    assert (describe(step.error).code, step.waited_ms) == (code, waited_ms)


def test_each_item_of_a_map_takes_the_next_report() -> None:
    mapped = {"id": "scans", "task": "scan", "map": {"over": [1, 2], "as": "plot", "failure": "partial"}}
    assert ran(mapped, callbacks={"scans": [10, 20]}).output == [10, 20]
    late = ran(mapped, callbacks={"scans": [10]})
    assert [each.status for each in late.steps["scans"].items] == ["completed", "timeout"]
    assert late.output == [10, None]


def test_steps_inside_of_others_are_named_by_their_way() -> None:
    inner = {"id": "inner", "steps": [SCAN]}
    result = run_pipeline(
        {
            "id": "p",
            "steps": [
                {"id": "outer", "pipeline": "inner"},
                {"id": "train", "task": "train", "params": {}, "onError": {"steps": [{**SCAN, "id": "ask"}]}},
                {"id": "back", "task": "note", "compensate": {"steps": [{**SCAN, "id": "undo"}]}},
            ],
            "finally": {"steps": [{**SCAN, "id": "last"}]},
        },
        tasks=TASKS,
        pipelines=[inner],
        callbacks={"outer.scan": 1, "train.ask": 2, "compensate:back.undo": 3, "finally.last": 4},
    )
    assert (result.status, result.steps["outer"].output, result.steps["train"].output) == ("completed", 1, 2)
    assert result.ending["finally"].output == 4


def test_what_takes_care_of_an_error_may_ask_people() -> None:
    @pipeline(id="mend")
    def mend(error: dict[str, Any]) -> Any:
        return approval("Go on?", step_id="ok")["approved"]

    @pipeline(id="careful")
    def careful() -> Any:
        return train.options(step_id="t", on_error=mend)()

    failed = {"status": "failed"}
    result = run_pipeline(careful, callbacks={"t": failed}, approvals={"t.ok": True})
    assert (result.status, result.output) == ("completed", True)


def test_a_report_for_no_call_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match="no task step 'scam'") as unknown:
        ran(SCAN, callbacks={"scam": 1})
    assert "scan" in str(unknown.value.hint)
    with pytest.raises(InvalidInput, match=r"callbacks\.scan\[1\]"):
        ran(SCAN, callbacks={"scan": [1, {2}]})


def test_a_report_is_reused_for_its_idempotency_key() -> None:
    @task(id="once", idempotency_key=lambda plot: str(plot))
    def once(plot: int) -> Suspend:
        HANDED_ON.append("once")
        return Suspend.callback()

    steps = [{"id": each, "task": "once", "params": {"plot": 1}} for each in ("a", "b")]
    result = run_pipeline({"id": "p", "steps": steps}, tasks=[once], callbacks={"a": 5})
    assert (result.status, result.output, HANDED_ON) == ("completed", 5, ["once"])


def test_a_dict_that_says_pending_suspends_a_call_whose_step_says_so() -> None:
    pending = {"id": "n", "task": "note", "params": {"value": {"status": "pending", "callback_url": "x"}}}
    assert ran({**pending, "async": {}}, callbacks={"n": 6}).output == 6
    assert ran(pending, callbacks={"n": 6}).output == {"status": "pending", "callback_url": "x"}
    neither = {"id": "n", "task": "note", "params": {"value": {"status": "pending"}}, "async": {}}
    assert isinstance(ran(neither).error, InvalidAsyncResult)


def test_a_task_alone_has_a_url_to_hand_on() -> None:
    result = run_task(scan)
    assert result.suspend == Suspend(timeout_ms=3 * DAY_MS)
    assert HANDED_ON[0].startswith("https://pipeweave.invalid/api/callbacks/trun_")


def test_a_policy_of_the_step_says_which_failures_are_tried_again() -> None:
    @pipeline(id="strict")
    def strict() -> Any:
        return scan.options(retry=Retry(attempts=3, retry_on=["WAIT_TIMEOUT"]), step_id="s")()

    step = run_pipeline(strict, callbacks={"s": {"status": "failed", "error": "no"}}).steps["s"]
    assert (step.status, step.attempts) == ("failed", 1)
    assert isinstance(step.error, TaskError)


def test_the_test_on_the_page_about_testing_is_right() -> None:
    [tasks] = [each for each in blocks(ROOT / "docs/waits.md", "python") if "Suspend.callback" in each]
    page = ROOT / "docs/tasks-and-pipelines.md"
    [test] = [each for each in blocks(page, "python") if "callbacks=" in each]
    names: dict[str, Any] = {
        "__name__": "the_page",
        "run_pipeline": run_pipeline,
        "send_to_laboratory": lambda plot, report_to: None,
    }
    exec(compile(tasks, "<the page>", "exec", dont_inherit=True), names)
    exec(compile(test, "<the page>", "exec", dont_inherit=True), names)
    names["test_a_scan_that_failed_is_ordered_again"]()
