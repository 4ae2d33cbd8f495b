"""Messages in a queue where they do not belong: another tenant's worker must not touch what they name."""

from __future__ import annotations

from datetime import timedelta

from support.live_stack import LiveStack

from pipeweave.orchestrator.domain.outbox import ChordPart, JoinCheck, Released
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.registry.task_rows import queue_name

AHEAD = timedelta(seconds=30)
STRAY = {"id": "stray", "steps": [{"id": "first", "task": "noop"}, {"id": "second", "task": "noop"}]}


def test_a_message_in_the_queue_of_another_tenant_is_dropped(empty_stack: LiveStack) -> None:
    stack, other = empty_stack, "another-tenant"
    stack.stop(stack.start_worker("steps.py"))  # its tasks are registered now
    stack.store(STRAY)
    foreign = stack.start_worker("steps.py", tenant=other, concurrency=2)
    run_id = stack.trigger("stray")
    before = stack.task_runs(run_id)
    # The only message of the run is lost, and forged ones are in the other tenant's queue.
    stack.wipe_broker()
    queue = queue_name(other, "python")
    for _ in range(5):
        stack.send(
            Released(run_id, 1, 1, "noop", queue, 100),
            *(JoinCheck(run_id, join, queue) for join in (1, 2, END)),
            ChordPart(run_id, 2, queue, message=0),
        )
    stack.until(lambda: stack.deployment.publisher.depth(queue) == 0, "the other worker took nothing")
    stack.until(lambda: "has no such run" in stack.logs(), "nothing was said")
    assert stack.task_runs(run_id) == before
    own = stack.start_worker("steps.py", concurrency=2)
    stack.tick(AHEAD)
    assert stack.finished(run_id).status == "completed"
    assert all(f":{own}:" in row.worker for row in stack.task_runs(run_id))
    assert stack.called(run_id) == {"first": 1, "second": 1}
    assert foreign in [each.pid for each in stack.processes if each.poll() is None]
