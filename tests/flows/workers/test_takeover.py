"""A service takes the tasks of another one over: what waits of them goes to its workers."""

from __future__ import annotations

from support.live_stack import LiveStack

DOCUMENT = {
    "id": "taken",
    "steps": [{"id": "first", "task": "limited", "needs": []}, {"id": "then", "task": "noop"}],
}


def test_a_new_service_executes_the_waiting_task_runs_of_the_old_one(
    stack_with_beat: LiveStack,
) -> None:
    old = stack_with_beat.start_worker("steps.py", concurrency=1)
    assert stack_with_beat.ran(DOCUMENT).status == "completed"
    stack_with_beat.stop(old)
    # Two are queued and hold the slots of the limit, the others wait for those.
    runs = [stack_with_beat.trigger("taken") for _ in range(4)]
    assert [stack_with_beat.statuses(each)["first"] for each in runs] == [
        "queued",
        "queued",
        "ready",
        "ready",
    ]
    stack_with_beat.start_worker("steps.py", "--service", "renamed", concurrency=2)
    assert {stack_with_beat.finished(each).status for each in runs} == {"completed"}
    assert {row.queue for each in runs for row in stack_with_beat.task_runs(each)} == {
        stack_with_beat.queue("renamed")
    }
    assert [len(stack_with_beat.calls(each)) for each in runs] == [2] * len(runs)
