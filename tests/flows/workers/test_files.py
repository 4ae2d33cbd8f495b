"""Assets, folders and stored logs of tasks in real workers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.storage import LocalStorage, ObjectRef


@pytest.fixture(scope="module")
def files_stack(empty_stack: LiveStack) -> LiveStack:
    empty_stack.start_worker("files.py", concurrency=2)
    empty_stack.start_beat()
    return empty_stack


def storage_of(stack: LiveStack) -> LocalStorage:
    return LocalStorage(Path(stack.settings.data_dir) / "storage")


def log_of(stack: LiveStack, task_run: Any, attempt: int = 1) -> list[dict[str, Any]]:
    """The stored log of an attempt, once it is there."""
    path = f"runs/{ids.show(ids.TASK_RUN, task_run.id)}.{attempt}/logs.jsonl"
    stack.until(lambda: storage_of(stack).exists(path), f"{path} is stored")
    return [json.loads(line) for line in storage_of(stack).get(path).splitlines()]


def test_assets_of_a_step_are_read_by_the_steps_behind_it(files_stack: LiveStack) -> None:
    document = {
        "id": "files",
        "steps": [
            {"id": "pack", "task": "pack"},
            {"id": "between", "task": "note", "params": {"item": 7}, "needs": ["pack"]},
            {
                "id": "unpack",
                "task": "unpack",
                "params": {"before": "${steps.pack}"},
                "needs": ["between"],
            },
        ],
    }
    run = files_stack.ran(document, {"rows": [1, 2, 3]})
    steps = files_stack.steps(run.id)
    assert files_stack.output(steps["unpack"]) == {
        "size": 300_000,
        "rows": [1, 2, 3],
        "note": "of item 7",
        "is_gone": True,
    }
    assets = steps["pack"].assets
    assert {key: (each["size"], each["type"]) for key, each in assets.items()} == {
        "rows.bin": (300_000, "binary"),
        "rows.json": (7, "json"),
        "note": (7, "text"),
    }
    where, digest = ObjectRef.parse(assets["note"]["path"], "?"), hashlib.sha256(b"of pack").hexdigest()
    assert where == ObjectRef("local", f"artifacts/sha256/{digest[:2]}/{digest}")
    assert assets["note"]["sha256"] == digest
    assert storage_of(files_stack).get(where.path) == b"of pack"
    assert steps["unpack"].assets is None


def test_assets_of_items_are_read_behind_the_map(files_stack: LiveStack) -> None:
    document = {
        "id": "mapped",
        "steps": [
            {"id": "pack", "task": "pack"},
            {"id": "notes", "task": "note", "map": {"over": [1, 2, 3], "as": "item"}, "needs": ["pack"]},
            {
                "id": "unpack",
                "task": "unpack",
                "params": {"before": "${steps.pack}"},
                "needs": ["notes"],
            },
        ],
    }
    run = files_stack.ran(document, {"rows": [1]})
    assert files_stack.output(files_stack.steps(run.id)["unpack"])["note"] == "of item 3"


def test_what_a_task_logs_is_stored_for_each_attempt(files_stack: LiveStack) -> None:
    run = files_stack.ran(
        {"id": "logs", "steps": [{"id": "pack", "task": "pack"}, {"id": "b", "task": "break_off"}]},
        {"rows": [1]},
    )
    steps = files_stack.steps(run.id)
    lines = log_of(files_stack, steps["pack"])
    assert [(each["level"], each["message"]) for each in lines] == [("info", "packing"), ("info", "printed")]
    run_id = f"{ids.show(ids.TASK_RUN, steps['pack'].id)}.1"
    assert (lines[0]["runId"], lines[0]["rows"]) == (run_id, 1)
    for attempt in (1, 2):
        (line,) = log_of(files_stack, steps["b"], attempt)
        assert (line["level"], line["attempt_seen"]) == ("error", attempt)
    own = f"runs/{ids.show(ids.TASK_RUN, steps['b'].id)}.1/"
    assert [each.path for each in storage_of(files_stack).list(own)] == [f"{own}logs.jsonl"]


def test_the_log_of_an_attempt_is_there_while_it_runs_and_after_its_process_died(
    files_stack: LiveStack, gate: Path
) -> None:
    files_stack.store({"id": "lingers", "steps": [{"id": "a", "task": "linger"}]})
    run_id = files_stack.trigger("lingers", {"gate": str(gate)})
    (task_run,) = files_stack.task_runs(run_id)
    assert [each["message"] for each in log_of(files_stack, task_run)] == ["lingering"]
    assert files_stack.run(run_id).status == "running"
    gate.touch()
    assert files_stack.finished(run_id).status == "failed"
    assert [each["message"] for each in log_of(files_stack, task_run)] == ["lingering"]


def test_a_worker_that_stops_stores_what_was_logged(empty_stack: LiveStack, files_stack: LiveStack) -> None:
    pid = empty_stack.start_worker("talking.py", concurrency=1)
    run = empty_stack.ran({"id": "talks", "steps": [{"id": "a", "task": "talk"}]}, {"order": 1})
    empty_stack.stop(pid)
    path = f"runs/{ids.show(ids.TASK_RUN, empty_stack.steps(run.id)['a'].id)}.2/logs.jsonl"
    assert b"through the context" in storage_of(empty_stack).get(path)


def test_a_log_is_cut_where_it_becomes_too_large(files_stack: LiveStack) -> None:
    run = files_stack.ran({"id": "chatters", "steps": [{"id": "a", "task": "chatter"}]})
    lines = log_of(files_stack, files_stack.steps(run.id)["a"])
    assert lines[-1]["message"].startswith("the log is cut here")
    assert len(lines) < 1_000
