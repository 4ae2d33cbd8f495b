"""Named queues: each task run waits in the queue of its task, and workers serve the queues that they name."""

from __future__ import annotations

from pathlib import Path

from support.live_stack import LiveStack

from pipeweave import ids
from pipeweave.orchestrator.diagnosis import why

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

DOCUMENT = {
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


def test_each_step_runs_on_a_worker_that_serves_its_queue(stack_with_beat: LiveStack, tmp_path: Path) -> None:
    stack = stack_with_beat
    app = tmp_path / "queued.py"
    app.write_text(APP)
    plain = stack.start_worker(str(app), "--queues", "default", concurrency=1)
    stack.store(DOCUMENT)
    run_id = stack.trigger("rendered")
    stack.until(lambda: stack.statuses(run_id)["picture"] == "queued", "the picture is not queued")
    with stack.deployment.database.reading() as tx:
        task_run = ids.task_run_id(run_id, 2)
        found = why.why(tx, stack.settings.tenant, task_run, stack.deployment.publisher.oldest)
    assert (found["reasons"][0]["code"], found["reasons"][0]["queue"]) == (
        "no_worker",
        f"{stack.queue()}/gpu",
    )
    gpu = stack.start_worker(str(app), "--queues", "gpu", concurrency=1)
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
