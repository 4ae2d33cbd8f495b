"""An HTTP worker runs what is dispatched to it, and reports how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest
from support.fake_orchestrator import FakeOrchestrator, Serve
from support.servers import WAIT_DEADLINE_S

from pipeweave import Context, TaskError, TaskResult, task
from pipeweave.errors import AttemptCancelled

# More answers than a request is tried.
AGAIN = 10


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task
def show(ctx: Context) -> dict[str, Any]:
    return {
        "input": ctx.input,
        "upstream": dict(ctx.upstream),
        "previous": list(ctx.previous_attempts),
        "attempt": ctx.attempt,
        "ids": [ctx.run_id, ctx.task_run_id, ctx.pipeline_id, ctx.step_id, ctx.tenant],
        "code": [ctx.code_version, ctx.code_hash],
        "triggered_by": ctx.triggered_by,
    }


def test_a_dispatch_is_taken_run_and_reported(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(add)
    status, answer = orchestrator.dispatch("add", input={"a": 2, "b": 3})
    assert (status, answer) == (202, {"acknowledged": True, "runId": "trun_1.1.mac"})
    assert orchestrator.report() == {"status": "success", "outputSize": 1, "output": 5}


def test_the_context_holds_what_the_dispatch_says(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(show)
    orchestrator.objects["a.json"] = b"[1]"
    orchestrator.objects["b.json"] = b"2"
    orchestrator.objects["next"] = json.dumps({"upstreamRefs": {"b": {"outputPath": "b.json"}}}).encode()
    orchestrator.dispatch(
        "show",
        "trun_9.3.mac",
        input={"x": 1},
        attempt=3,
        pipelineRunId="prun_9",
        pipelineId="p",
        stepId="s",
        codeVersion=4,
        codeHash="ab",
        upstreamRefs={"a": {"outputPath": "a.json", "outputUrl": "/objects/a.json"}},
        upstreamNext="/pages/next",
        previousAttempts=[{"attempt": 1, "error": "away"}],
        triggeredBy={"kind": "schedule", "id": "nightly", "actor": None},
    )
    assert orchestrator.report("trun_9.3.mac")["output"] == {
        "input": {"x": 1},
        "upstream": {"a": [1], "b": 2},
        "previous": [{"attempt": 1, "error": "away"}],
        "attempt": 3,
        "ids": ["prun_9", "trun_9", "p", "s", "default"],
        "code": [4, "ab"],
        "triggered_by": {"kind": "schedule", "id": "nightly", "actor": None},
    }


def test_a_large_output_is_stored_and_its_path_reported(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def large() -> str:
        return "x" * 100_000

    serve(large)
    orchestrator.dispatch("large")
    report = orchestrator.report()
    assert (report["outputPath"], report["outputSize"]) == ("runs/trun_1.1.mac/output.json", 100_002)
    assert orchestrator.objects[report["outputPath"]] == b'"' + b"x" * 100_000 + b'"'


def test_the_choice_of_successors_is_reported(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def choose() -> TaskResult:
        return TaskResult(1, run_next=["left"])

    serve(choose)
    orchestrator.dispatch("choose")
    assert orchestrator.report()["selectedNext"] == ["left"]


def test_an_error_is_reported_with_all_that_helps(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def charge() -> None:
        raise TaskError("declined", code="DECLINED", retryable=False, details={"card": 1})

    serve(charge)
    orchestrator.dispatch("charge")
    report = orchestrator.report()
    stack = report.pop("stack")
    assert report == {
        "status": "failed",
        "error": "declined",
        "errorCode": "DECLINED",
        "retryable": False,
        "details": {"card": 1},
    }
    assert "in charge" in stack
    assert "pipeweave/http_worker" not in stack


def test_parameters_that_do_not_fit_fail_the_attempt(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(add)
    orchestrator.dispatch("add", input={"a": "many"})
    report = orchestrator.report()
    assert (report["errorCode"], report["retryable"]) == ("INVALID_PARAMS", False)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_whatever_a_task_raises_is_reported(
    orchestrator: FakeOrchestrator, serve: Serve, error: BaseException
) -> None:
    @task
    def leave() -> None:
        raise error

    serve(leave)
    orchestrator.dispatch("leave")
    assert orchestrator.report()["errorCode"] == type(error).__name__


def test_an_input_that_is_missing_fails_the_attempt(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(add)
    orchestrator.dispatch("add", inputUrl="/objects/nowhere")
    assert orchestrator.report()["errorCode"] == "NOT_FOUND"


def test_a_task_whose_input_cannot_be_loaded_is_reported_as_not_begun(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    called = []

    @task
    def note(ctx: Context) -> None:
        called.append(ctx.input)

    serve(note)
    orchestrator.answers["object"] = [(503, None)] * AGAIN
    orchestrator.dispatch("note")
    report = orchestrator.report()
    assert (report["errorCode"], report["begun"], report["retryable"]) == ("UNAVAILABLE", False, True)
    assert called == []


@pytest.mark.parametrize(("size", "status"), [(200_000, "success"), (300_000, "failed")])
def test_a_result_that_storage_does_not_take_goes_with_the_report_if_a_row_can_hold_it(
    orchestrator: FakeOrchestrator, serve: Serve, size: int, status: str
) -> None:
    @task
    def large() -> str:
        orchestrator.answers["object"] = [(503, None)] * AGAIN
        return "x" * size

    serve(large)
    orchestrator.dispatch("large")
    report = orchestrator.report()
    assert (report["status"], report.get("output")) == (status, "x" * size if status == "success" else None)
    assert "begun" not in report


def test_assets_go_from_one_step_to_the_next(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def write(ctx: Context) -> None:
        ctx.add_asset("rows.json", [1, 2])
        ctx.add_asset("note", "hello")
        (ctx.temp_dir / "raw").write_bytes(b"\0\1")
        ctx.add_asset_from_path("raw.bin", ctx.temp_dir / "raw")

    @task
    def read(ctx: Context) -> list[Any]:
        size = ctx.get_asset_path("raw.bin").stat().st_size
        return [ctx.get_asset("rows.json"), ctx.get_asset("note"), size]

    serve(write, read)
    orchestrator.dispatch("write")
    assets = orchestrator.report()["assets"]
    assert assets["raw.bin"] == {
        "path": "runs/trun_1.1.mac/assets/raw.bin",
        "size": 2,
        "type": "binary",
    }
    assert {key: each["type"] for key, each in assets.items()} == {
        "rows.json": "json",
        "note": "text",
        "raw.bin": "binary",
    }
    orchestrator.dispatch(
        "read", "trun_2.1.mac", upstreamRefs={"write": {"outputPath": "x", "assets": assets}}
    )
    assert orchestrator.report("trun_2.1.mac")["output"] == [[1, 2], "hello", 2]


def test_of_two_assets_with_one_key_the_nearest_step_s_is_read(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    @task
    def read_a(ctx: Context) -> Any:
        return ctx.get_asset("a")

    serve(read_a)
    for name in ("far", "near"):
        orchestrator.objects[name] = name.encode()
    refs = {
        step: {"outputPath": "x", "assets": {"a": {"path": step, "size": 4, "type": "text"}}}
        for step in ("far", "near")
    }
    orchestrator.dispatch("read_a", upstreamRefs=refs)
    assert orchestrator.report()["output"] == "near"


def test_a_failed_attempt_stores_no_assets(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def half(ctx: Context) -> None:
        ctx.add_asset("a", 1)
        raise ValueError("broken")

    serve(half)
    orchestrator.dispatch("half")
    assert "assets" not in orchestrator.report()
    assert not [path for path in orchestrator.objects if "assets" in path]


def test_an_upload_of_the_run_is_a_file(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def names(ctx: Context, file: str) -> list[Any]:
        path = ctx.upload(file)
        return [path.name, path.read_text()]

    serve(names)
    orchestrator.objects["temp-uploads/tmp_1/a.txt"] = b"abc"
    uploads = {"tmp_1": {"path": "temp-uploads/tmp_1/a.txt", "filename": "../a.txt", "size": 3}}
    orchestrator.dispatch("names", input={"file": "tmp_1"}, uploads=uploads)
    assert orchestrator.report()["output"] == ["a.txt", "abc"]


def test_the_log_of_an_attempt_is_stored(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    @task
    def talk(ctx: Context) -> None:
        ctx.log.info("began", extra={"rows": 3})
        logging.getLogger("shop").error("odd")
        raise ValueError("broken")

    serve(talk)
    orchestrator.dispatch("talk")
    path = orchestrator.report()["logsPath"]
    assert path == "runs/trun_1.1.mac/logs.jsonl"
    stored = orchestrator.wait(lambda: orchestrator.objects.get(path))
    lines = [json.loads(line) for line in stored.splitlines()]
    assert [(each["level"], each["message"], each["runId"]) for each in lines] == [
        ("info", "began", "trun_1.1.mac"),
        ("error", "odd", "trun_1.1.mac"),
    ]
    assert lines[0]["rows"] == 3


def test_what_another_thread_logs_is_not_in_the_log_of_an_attempt(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    @task
    def silent() -> None:
        thread = threading.Thread(target=lambda: logging.getLogger("shop").warning("elsewhere"))
        thread.start()
        thread.join()

    serve(silent)
    orchestrator.dispatch("silent")
    assert "logsPath" not in orchestrator.report()


@task
async def wait(seconds: float) -> str:
    waiting.set()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "waited"


waiting, cancelled = threading.Event(), threading.Event()


def test_an_async_task_is_run_to_its_end(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(wait)
    orchestrator.dispatch("wait", input={"seconds": 0})
    assert orchestrator.report()["output"] == "waited"


def test_an_async_task_that_is_cancelled_learns_of_it_where_it_waits(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    serve(wait)
    orchestrator.dispatch("wait", input={"seconds": 60}, heartbeatIntervalMs=100)
    assert waiting.wait(WAIT_DEADLINE_S)
    orchestrator.answers["heartbeat"] = [(200, {"acknowledged": True, "shouldCancel": True})]
    assert orchestrator.report()["errorCode"] == AttemptCancelled.code
    assert cancelled.is_set()
