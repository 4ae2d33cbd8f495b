"""The bars beside the steps of a run: places on an axis, idle times left out, hollow and red attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeweave.api.ui.run_gantt import MOST_DETAILED, WIDTH, Gantt, gantt_of

BEGAN = "2026-06-15T12:00:00.000Z"


def bar(kind: str, begin: float, end: float) -> dict[str, Any]:
    return {"kind": kind, "fromMs": begin, "toMs": end}


def step(id: str, status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": id, "status": status, "startedAt": BEGAN, "finishedAt": BEGAN, **more}


@dataclass
class Asked:
    """A view that answers with this timeline."""

    total: float
    steps: list[dict[str, Any]] = field(default_factory=list)
    now: datetime = datetime(2026, 6, 15, 12, 0, 33, tzinfo=UTC)

    def ask(self, operation: str, query: Any = None, **ids: str) -> dict[str, Any]:
        assert operation == "run_times.get_timeline"
        return {"totalMs": self.total, "steps": self.steps}

    def told(self, id: str, *bars: dict[str, Any], status: str = "completed", lane: Any = None) -> Asked:
        self.steps.append({"stepId": id, "status": status, "bars": list(bars), "lane": lane})
        return self


def drawn(asked: Asked, *steps: dict[str, Any], **run: Any) -> Gantt:
    document = {
        "id": "prun_1",
        "startedAt": BEGAN,
        "createdAt": BEGAN,
        "finishedAt": BEGAN,
        "taskRunCount": 2,
        "steps": steps,
        **run,
    }
    found = gantt_of(asked, document, steps)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_bars_stand_where_they_were_on_the_axis_of_the_run() -> None:
    asked = Asked(1_000).told("a", bar("queue", 0, 250), bar("work", 250, 1_000))
    found = drawn(asked, step("a"))
    assert [(each.x, each.width, each.words) for each in found.rows["a"]] == [
        (0, WIDTH / 4, "f-queued k-queue"),
        (WIDTH / 4, WIDTH * 3 / 4, "f-completed k-work"),
    ]
    assert found.labels == [(0.0, 0.0), (1_000, 100.0)]


@pytest.mark.parametrize(("status", "is_hollow"), [("completed", True), ("failed", False)])
def test_an_attempt_is_red_only_where_the_step_failed_for_good(status: str, is_hollow: bool) -> None:
    asked = Asked(1_000).told("a", bar("failedWork", 0, 500), bar("work", 500, 1_000), status=status)
    first = drawn(asked, step("a", status)).rows["a"][0]
    assert ("hollow" in first.words) is is_hollow


def test_most_of_the_time_idle_is_left_out_of_the_axis() -> None:
    asked = Asked(100_000).told("a", bar("work", 0, 1_000)).told("b", bar("work", 99_000, 100_000))
    found = drawn(asked, step("a"), step("b"))
    gap, work = found.rows["b"]
    assert gap.kind == "gap" and gap.width < WIDTH / 20
    assert work.width > WIDTH / 3
    assert 99_000 in [ms for ms, _ in found.labels]


def test_what_goes_on_reaches_the_end_of_an_axis_that_seldom_changes() -> None:
    ends = set()
    for total in (30_100.0, 31_900.0):
        asked = Asked(total).told("a", bar("work", 0, total), status="running")
        found = drawn(asked, step("a", "running", finishedAt=None), finishedAt=None)
        [work] = found.rows["a"]
        assert work.x + work.width == WIDTH
        ends.add(found.labels[-1][0])
    assert ends == {32_000}


@pytest.mark.parametrize(("failed", "words"), [(1, "f-failed"), (0, "f-failed hollow")])
def test_a_map_is_an_area_with_a_tick_where_attempts_failed(failed: int, words: str) -> None:
    lane = {"fromMs": 0.0, "toMs": 1_000.0, "running": [1.0, 2.0], "failed": [0, 1]}
    asked = Asked(1_000).told("m", bar("items", 0, 1_000), lane=lane)
    area, tick = drawn(asked, step("m", failed=failed)).rows["m"]
    assert (area.kind, tick.kind, tick.words) == ("area", "tick", words)
    assert tick.x > WIDTH / 2


def test_a_wide_run_is_drawn_from_its_document_alone() -> None:
    finished = "2026-06-15T12:00:10.000Z"
    wide = drawn(
        Asked(0), step("a", finishedAt=finished), taskRunCount=MOST_DETAILED + 1, finishedAt=finished
    )
    assert [(each.x, each.width) for each in wide.rows["a"]] == [(0, WIDTH)]


def test_a_run_that_has_not_begun_has_no_bars() -> None:
    assert gantt_of(Asked(0), {"startedAt": None}, ()) is None  # type: ignore[arg-type]
