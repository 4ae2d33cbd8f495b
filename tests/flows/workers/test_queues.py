"""Named queues: each task run waits in the queue of its task, and workers serve the queues that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.registry import drains

APP = """
import os

from pipeweave import task


@task
def count() -> int:
    return os.getppid()


@task(queue="gpu")
def render() -> int:
    return os.getppid()
"""

DOCUMENT: dict[str, Any] = {
    "id": "rendered",
    "steps": [
        {"id": "before", "task": "count", "needs": []},
        {"id": "picture", "task": "render"},
        {"id": "after", "task": "count"},
    ],
}


def parents(stack: LiveStack, run_id: object) -> dict[str, int]:
    """The worker that called each step, by its process id."""
    return {step: stack.output(row) for step, row in stack.steps(run_id).items()}  # type: ignore[arg-type]


# The picture is for a worker that says it has what the step before returned.
LABELLED = {
    "id": "rendered",
    "steps": [
        {**each, **({"requires": {"of": "${steps.before}"}} if each["id"] == "picture" else {})}
        for each in DOCUMENT["steps"]
    ],
}


def test_each_step_runs_on_a_worker_that_serves_its_queue_and_has_its_labels(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack = stack_with_beat
    app = tmp_path / "queued.py"
    app.write_text(APP)
    plain = stack.start_worker(str(app), "--queues", "default", concurrency=1)
    stack.store(LABELLED)
    run_id = stack.trigger("rendered")
    stack.until(lambda: stack.statuses(run_id)["picture"] == "queued", "the picture is not queued")
    with stack.deployment.database.reading() as tx:
        task_run = ids.task_run_id(run_id, 2)
        found = why.why(tx, stack.settings.tenant, task_run, stack.deployment.publisher.oldest)
    assert (found["reasons"][0]["code"], found["reasons"][0]["queue"]) == (
        "no_worker",
        f"{stack.queue()}/gpu+of={plain}",
    )
    gpu = stack.start_worker(str(app), "--queues", "gpu", "--label", f"of={plain}", concurrency=1)
    assert stack.finished(run_id).status == "completed"
    assert parents(stack, run_id) == {"before": plain, "picture": gpu, "after": plain}


def test_a_worker_without_the_option_serves_the_queues_of_all_its_tasks(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack = stack_with_beat
    app = tmp_path / "queued.py"
    app.write_text(APP)
    worker = stack.start_worker(str(app), concurrency=1)
    assert stack.ran(DOCUMENT).status == "completed"
    [run] = stack.rows("SELECT id FROM runs ORDER BY id DESC LIMIT 1")
    assert set(parents(stack, run.id).values()) == {worker}


GATED = """
import time
from pathlib import Path

from pipeweave import task


@task
def gated(gate: str) -> int:
    Path(gate + ".began").touch()
    while not Path(gate).exists():
        time.sleep(0.02)
    return 1
"""


def test_a_worker_that_drains_ends_its_call_takes_nothing_and_goes_on_when_it_is_resumed(
    stack_with_beat: LiveStack, tmp_path: Path
) -> None:
    stack, tenant = stack_with_beat, stack_with_beat.settings.tenant
    app = tmp_path / "gated.py"
    app.write_text(GATED)
    process_id = stack.start_worker(str(app), concurrency=1)
    stack.store({"id": "gates", "steps": [{"id": "wait", "task": "gated"}]})
    gates = [tmp_path / "first", tmp_path / "second"]
    first = stack.trigger("gates", {"gate": str(gates[0])})
    stack.until(lambda: Path(f"{gates[0]}.began").exists(), "the first call did not begin")

    def worker() -> dict[str, Any]:
        with stack.deployment.database.reading() as tx:
            # Workers of earlier tests that had to be killed may stand before it.
            found = reading.workers(tx, tenant, reading.PageRequest())["items"]
        return next(dict(each) for each in found if each["pid"] == process_id)

    name = worker()["id"]
    stack.deployment.database.run(lambda tx: drains.drain(tx, tenant, name))
    stack.until(lambda: "worker.draining" in stack.logs(), "the worker did not hear of its drain")
    second = stack.trigger("gates", {"gate": str(gates[1])})
    gates[0].touch()
    assert stack.finished(first).status == "completed"
    # Its next heartbeats say that it is free; it could have taken the second message by then.
    freed = worker()["heartbeatAt"]
    stack.until(lambda: worker()["busy"] == 0 and worker()["heartbeatAt"] > freed, "it is still busy")
    assert stack.statuses(second) == {"wait": "queued"}
    assert not Path(f"{gates[1]}.began").exists()
    assert (worker()["state"], worker()["startsLastHour"]) == ("draining", 1)
    stack.deployment.database.run(lambda tx: drains.resume(tx, tenant, name))
    gates[1].touch()
    assert stack.finished(second).status == "completed"
    stack.until(lambda: worker()["startsLastHour"] == 2, "the second call was not counted")
