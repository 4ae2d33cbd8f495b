"""What the page of a run offers: why it waits, a retry of the failed items of a map, bars of what is done."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.api.ui.run_page import retries_these, waits
from pipeweave.api.ui.run_step import Selected
from pipeweave.api.ui.templating import environment


def step(id: str = "a", status: str = "pending", **more: Any) -> dict[str, Any]:
    return {"id": id, "taskId": "t", "status": status, "kind": "task", "dueAt": None, "failed": 0, **more}


MAP = step("m", "waiting", kind="map")


@pytest.mark.parametrize(
    ("counts", "steps", "does_wait"),
    [
        ({"running": 1}, [step(status="running")], False),
        ({"running": 1, "pending": 2}, [step(status="running"), step("b"), step("c")], False),
        ({"running": 3, "waiting": 1}, [MAP], False),
        ({"running": 3, "waiting": 1, "queued": 5}, [MAP], True),
        ({"waiting": 1}, [step(status="waiting", kind="wait")], True),
        (
            {"running": 1, "pending": 1},
            [step(status="running"), step("b", dueAt="2026-11-20T12:00:00Z")],
            True,
        ),
        ({"pending": 1}, [step()], True),
    ],
)
def test_why_it_waits_is_offered_where_more_is_waited_for_than_own_steps(
    counts: dict[str, int], steps: list[dict[str, Any]], does_wait: bool
) -> None:
    run = {"status": "running", "pausedAt": None, "counts": counts, "steps": steps}
    assert waits(run) is does_wait
    assert waits({**run, "pausedAt": "2026-11-20T12:00:00Z"})
    assert not waits({**run, "status": "completed"})


class MayAll:
    """A caller with every right."""

    def may(self, operation: str) -> bool:
        return True


FAILED_MAP = step("m", "completed", kind="map", failed=3)


@pytest.mark.parametrize(
    ("others", "chosen", "offered"),
    [
        ((), Selected("m", step=FAILED_MAP), True),
        (
            (step("n", "completed", kind="map", failed=1, taskId="other"),),
            Selected("m", step=FAILED_MAP),
            True,
        ),
        # The redrive would take those, too.
        ((step("n", "failed", failed=1),), Selected("m", step=FAILED_MAP), False),
        ((), Selected("m", 2, step=FAILED_MAP), False),
        ((), Selected("m", step={**FAILED_MAP, "failed": 0}), False),
        ((), Selected("m", step={**FAILED_MAP, "kind": "task"}), False),
        ((), None, False),
    ],
)
def test_the_failed_items_of_a_map_are_retried_together_where_no_others_would_be(
    others: tuple[dict[str, Any], ...], chosen: Selected | None, offered: bool
) -> None:
    run = {"steps": [FAILED_MAP, *others], "ending": None}
    view: Any = MayAll()
    assert retries_these(view, run, chosen) is offered


def test_a_bar_is_full_of_what_has_ended_thin_where_something_goes_on_and_empty_ahead() -> None:
    macros = environment().get_template("parts/macros.html").make_module({"view": None})
    bar = str(macros.status_bar({"completed": 1, "running": 1, "pending": 2}))  # type: ignore[attr-defined]
    assert 'class="f-completed" x="0.0" width="250.0" y="0" height="10"' in bar
    assert 'class="f-running" x="250.0" width="250.0" y="3" height="4"' in bar
    assert bar.count("<rect") == 2 and "2 pending" in bar
