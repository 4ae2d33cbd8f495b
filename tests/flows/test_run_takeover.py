"""A service takes the tasks of another one over: what waits of them goes to its workers."""

from __future__ import annotations

import pytest
from support.live_stack import Stage

pytestmark = pytest.mark.timeout(120)

DOCUMENT = {
    "id": "taken",
    "steps": [{"id": "first", "task": "limited", "needs": []}, {"id": "then", "task": "noop"}],
}


def test_what_waits_for_a_service_that_is_gone_is_done_by_the_one_that_took_over(fragile: Stage) -> None:
    old = fragile.start_worker("steps.py", concurrency=1)
    assert fragile.ran(DOCUMENT).status == "completed"
    fragile.stop(old)
    # Two are queued and hold the slots of the limit, the others wait for those.
    runs = [fragile.trigger("taken") for _ in range(4)]
    assert [fragile.statuses(each)["first"] for each in runs] == ["queued", "queued", "ready", "ready"]
    fragile.start_worker("steps.py", "--service", "renamed", concurrency=2)
    assert {fragile.finished(each).status for each in runs} == {"completed"}
    assert {row.queue for each in runs for row in fragile.task_runs(each)} == {fragile.queue("renamed")}
    assert [len(fragile.calls(each)) for each in runs] == [2] * len(runs)
