"""What the overview lists as waiting to run."""

from __future__ import annotations

from typing import Any, cast

from pipeweave.api.ui.overview import waiting
from pipeweave.api.ui.view import View


class Line:
    """A view whose queue has these task runs."""

    def __init__(self, *items: tuple[str, str, str | None], has_more: bool = False) -> None:
        self.items = [{"status": status, "taskId": task, "pipelineId": of} for status, task, of in items]
        self.cursor = "more" if has_more else None

    def ask(self, _: str, query: dict[str, str]) -> dict[str, Any]:
        items = [each for each in self.items if each["status"] == query["status"]]
        return {"items": items, "nextCursor": self.cursor}

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        statuses = {name: {"count": 0} for name in ("ready", "queued", "pending", "running")}
        for each in self.items:
            statuses[str(each["status"])]["count"] += 1
        found = waiting(cast(View, self), statuses)
        return [(each["status"], each["taskId"], each["alike"], each["has_more"]) for each in found]


def test_what_runs_does_not_wait() -> None:
    assert Line(("running", "render", "video")).rows == []


def test_task_runs_of_one_task_and_pipeline_are_one_row() -> None:
    line = Line(
        *[("queued", "render", "video")] * 3, ("queued", "render", None), ("ready", "render", "video")
    )
    assert line.rows == [
        ("ready", "render", 1, False),
        ("queued", "render", 3, False),
        ("queued", "render", 1, False),
    ]


def test_a_row_says_that_there_are_more_than_were_looked_at() -> None:
    assert Line(*[("queued", "render", "video")] * 2, has_more=True).rows == [("queued", "render", 2, True)]
