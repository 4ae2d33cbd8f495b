"""Runs whose steps are executed by an HttpWorker, beside Celery tasks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack
from support.uploads import an_upload

from pipeweave import Context, HttpWorker, TaskError, TaskResult, ids, task
from pipeweave.orchestrator.objects import paths
from pipeweave.storage import LocalStorage

Serve = Callable[..., HttpWorker]


@pytest.fixture(scope="module")
def stack(http_stack: LiveStack) -> LiveStack:
    http_stack.start_worker("files.py", concurrency=1)
    return http_stack


@pytest.fixture(params=["token", "urls"])
def serve(
    request: pytest.FixtureRequest, orchestrator_url: str, secret: str, tmp_path: Path
) -> Iterator[Serve]:
    """Start a worker of a service of the test's own, in this process."""
    started: list[HttpWorker] = []

    def start(*tasks: Any, **options: Any) -> HttpWorker:
        name = f"{request.node.originalname}-{request.param}"
        worker = HttpWorker(
            name[:190],
            orchestrator_url,
            secret,
            tasks=[_renamed(each, request.param) for each in tasks],
            host="127.0.0.1",
            port=0,
            storage_access=request.param,
            temp_dir=tmp_path,
            **options,
        )
        started.append(worker)
        worker.start()
        return worker

    yield start
    for each in started:
        each.stop()


def _renamed(fn: Callable[..., Any], access: str) -> Any:
    return task(id=f"{fn.__name__}-{access}", retries=1, retry_delay_ms=1, timeout="1m")(fn)


def name_of(worker: HttpWorker, fn: Callable[..., Any]) -> str:
    return next(each for each in worker.tasks if each.startswith(f"{fn.__name__}-"))


def storage_of(stack: LiveStack) -> LocalStorage:
    return LocalStorage(Path(stack.settings.data_dir) / "storage")


def test_assets_go_from_celery_tasks_to_http_tasks_and_back(stack: LiveStack, serve: Serve) -> None:
    def there(ctx: Context) -> dict[str, Any]:
        size = ctx.get_asset_path("rows.bin").stat().st_size
        ctx.add_asset("note", f"{size} bytes")
        return {"rows": ctx.get_asset("rows.json"), "before": ctx.upstream["pack"]}

    worker = serve(there)
    document = {
        "id": "assets-across",
        "steps": [
            {"id": "pack", "task": "pack"},
            {"id": "there", "task": name_of(worker, there), "needs": ["pack"]},
            {"id": "back", "task": "unpack", "params": {"before": "${steps.pack}"}, "needs": ["there"]},
        ],
    }
    run = stack.ran(document, {"rows": [1, 2]})
    steps = stack.steps(run.id)
    assert run.status == "completed", {key: each.error for key, each in steps.items()}
    assert steps["there"].output["rows"] == [1, 2]
    assert stack.output(steps["back"])["note"] == "200000 bytes"


def test_assets_of_items_and_uploads_reach_an_http_task(stack: LiveStack, serve: Serve) -> None:
    def read(ctx: Context, file: str) -> list[str]:
        return [ctx.get_asset("note"), ctx.upload(file).read_text()]

    upload_id = an_upload(stack.deployment.database, stack.settings.tenant)
    file = ids.show(ids.UPLOAD, upload_id)
    storage_of(stack).put(paths.upload_path(upload_id, "a.csv"), b"1,2")
    worker = serve(read)
    steps = [
        {"id": "notes", "task": "note", "map": {"over": [1, 2, 3], "as": "item"}},
        {"id": "there", "task": name_of(worker, read), "needs": ["notes"]},
        {"id": "here", "task": "open_upload", "needs": ["notes"]},
    ]
    run = stack.ran({"id": "uploads", "steps": steps}, {"file": file})
    found = stack.steps(run.id)
    assert run.status == "completed", {key: each.error for key, each in found.items()}
    assert found["there"].output == ["of item 3", "1,2"]
    assert found["here"].output == ["a.csv", "1,2"]


def test_values_that_are_too_large_for_a_row_go_both_ways(stack: LiveStack, serve: Serve) -> None:
    def grow(items: list[str]) -> list[str]:
        return items * 2

    worker = serve(grow)
    steps = [{"id": "a", "task": name_of(worker, grow)}, {"id": "b", "task": "noop"}]
    run = stack.ran({"id": "large", "steps": steps}, {"items": ["x" * 50_000]})
    assert stack.output(stack.steps(run.id)["a"]) == ["x" * 50_000] * 2


@pytest.mark.parametrize("as_", [None, "item"])
@pytest.mark.parametrize("items", [[1, 2], [{"item": 1}, {"other": 2}], ["a", None]])
def test_each_item_of_a_map_is_one_dispatch(
    stack: LiveStack, serve: Serve, as_: str | None, items: list[Any]
) -> None:
    def wrap(item: Any, ctx: Context) -> list[Any]:
        return [ctx.map_index, item]

    worker = serve(wrap)
    step = {"id": "m", "task": name_of(worker, wrap), "map": {"over": items, "as": as_}}
    run = stack.ran({"id": "wraps", "steps": [step]})
    assert [each.output for each in stack.items(run.id, "m")] == [[0, items[0]], [1, items[1]]]


def test_an_item_of_a_map_comes_beside_the_params(stack: LiveStack, serve: Serve) -> None:
    def add(base: int, item: int) -> int:
        return base + item

    worker = serve(add)
    step = {"id": "m", "task": name_of(worker, add), "params": {"base": 10}, "map": {"over": [1, 2]}}
    run = stack.ran({"id": "adds", "steps": [step]})
    assert [each.output for each in stack.items(run.id, "m")] == [11, 12]


def test_a_failed_attempt_leaves_its_log_and_tells_the_next_one(stack: LiveStack, serve: Serve) -> None:
    def flaky(ctx: Context) -> Any:
        ctx.log.info("trying", extra={"number": ctx.attempt})
        if ctx.attempt == 1:
            raise TaskError("no money", code="DECLINED")
        return ctx.previous_attempts[0]["errorCode"]

    worker = serve(flaky)
    run = stack.ran({"id": "flaky-there", "steps": [{"id": "a", "task": name_of(worker, flaky)}]})
    step = stack.steps(run.id)["a"]
    assert (run.status, step.output, step.attempt) == ("completed", "DECLINED", 2)
    trun = ids.show(ids.TASK_RUN, step.id)

    def logs() -> list[str]:
        found = storage_of(stack).list(f"runs/{trun}.")
        return [each.path for each in found if each.path.endswith("/logs.jsonl")]

    stack.until(lambda: len(logs()) == 2, "both logs are stored")
    numbers = [json.loads(storage_of(stack).get(each))["number"] for each in logs()]
    assert sorted(numbers) == [1, 2]
    assert step.logs_path.endswith("/logs.jsonl")


def test_a_choice_of_successors_counts(stack: LiveStack, serve: Serve) -> None:
    def choose() -> TaskResult:
        return TaskResult("left", run_next=["left"])

    worker = serve(choose)
    steps = [
        {"id": "choose", "task": name_of(worker, choose)},
        {"id": "left", "task": "noop", "needs": ["choose"]},
        {"id": "right", "task": "noop", "needs": ["choose"]},
    ]
    run = stack.ran({"id": "chosen-there", "steps": steps})
    assert stack.statuses(run.id) == {"choose": "completed", "left": "completed", "right": "skipped"}


def test_a_cancelled_run_reaches_the_function(stack: LiveStack, serve: Serve) -> None:
    began, seen = threading.Event(), threading.Event()

    def work(ctx: Context) -> None:
        began.set()
        while not ctx.is_cancelled:
            time.sleep(0.01)
            ctx.progress(1)
        seen.set()

    worker = serve(work)
    stack.store({"id": "cancels", "steps": [{"id": "a", "task": name_of(worker, work)}]})
    run_id = stack.trigger("cancels")
    assert began.wait(20)
    stack.cancel(run_id)
    assert stack.finished(run_id).status == "cancelled"


def test_a_worker_that_stops_gives_back_what_it_cannot_end(stack: LiveStack, serve: Serve) -> None:
    began, ended_elsewhere = threading.Event(), threading.Event()

    def stay(ctx: Context) -> str:
        if began.is_set():
            ended_elsewhere.set()
            return "done"
        began.set()
        # It does not hear that it should stop.
        ended_elsewhere.wait(60)
        return "nobody waits for this"

    first = serve(stay, grace_s=0.1)
    stack.store({"id": "moves", "steps": [{"id": "a", "task": name_of(first, stay)}]})
    run_id = stack.trigger("moves")
    assert began.wait(20)
    serve(stay)
    first.stop()
    assert stack.finished(run_id).status == "completed"
    assert stack.steps(run_id)["a"].output == "done"
