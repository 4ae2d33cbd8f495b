"""Maps over lists found at run time, with real workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.live_stack import LiveStack

from pipeweave.size_limits import MAX_ITEM_BYTES, MAX_MAP_ITEMS

SUM_OF_DOUBLES: dict[str, Any] = {
    "id": "sum-of-doubles",
    "steps": [
        {"id": "numbers", "task": "numbers", "needs": []},
        {"id": "double", "task": "double", "map": {"over": "${steps.numbers}"}},
        {"id": "total", "task": "total", "params": {"rows": "${steps.double}"}},
    ],
}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1_000, 10_000])
def test_a_map_runs_once_per_item_and_joins_their_outputs_in_order(stack: LiveStack, count: int) -> None:
    run = stack.ran(SUM_OF_DOUBLES, {"count": count})

    assert run.status == "completed"
    steps = stack.steps(run.id)
    assert stack.output(steps["total"]) == sum(range(count)) * 2
    assert (steps["double"].status, steps["double"].map_count) == ("completed", count)
    calls = [call for call in stack.calls(run.id) if call.step_id == "double"]
    assert Counter(call.seen for call in calls) == Counter(range(count))
    assert all(call.seen == call.map_index for call in calls)
    items = stack.items(run.id, "double")
    assert [item.output for item in items] == [2 * index for index in range(count)]
    assert [item.map_index for item in items] == list(range(count))
    assert run.task_run_count == 3 + count
    if count:
        assert max(item.finished_at for item in items) <= steps["double"].finished_at
        total = next(call for call in stack.calls(run.id) if call.step_id == "total")
        assert max(call.ended for call in calls) <= total.began


@pytest.mark.parametrize("count", [0, 3, 20])
def test_a_map_over_the_output_of_a_map(stack: LiveStack, count: int) -> None:
    over = {"id": "twice", "task": "double", "map": {"over": "${steps.once}"}}
    document = {
        "id": "map-then-map",
        "steps": [
            {"id": "once", "task": "double", "needs": [], "map": {"over": "${input.list}"}},
            over,
            {"id": "total", "task": "total", "params": {"rows": "${steps.twice}"}},
        ],
    }
    run = stack.ran(document, {"list": list(range(count))})
    assert run.status == "completed"
    assert stack.output(stack.steps(run.id)["total"]) == 4 * sum(range(count))


def test_two_maps_over_one_list_feed_one_join(stack: LiveStack) -> None:
    document = {
        "id": "two-maps",
        "steps": [
            {"id": "numbers", "task": "numbers", "needs": []},
            {"id": "left", "task": "double", "needs": ["numbers"], "map": {"over": "${steps.numbers}"}},
            {"id": "right", "task": "double", "needs": ["numbers"], "map": {"over": "${steps.left}"}},
            {"id": "seen", "task": "look", "needs": ["left", "right"]},
        ],
    }
    run = stack.ran(document, {"count": 12})
    seen = stack.output(stack.steps(run.id)["seen"])
    assert seen["left"] == [2 * each for each in range(12)]
    assert seen["right"] == [4 * each for each in range(12)]


def test_a_join_of_ten_maps_runs_once_they_all_ended(stack: LiveStack) -> None:
    maps = [
        {
            "id": f"map{number}",
            "task": "act",
            "needs": ["start"],
            "map": {"over": f"${{input.lists.m{number}}}"},
        }
        for number in range(10)
    ]
    document = {
        "id": "ten-maps",
        "steps": [
            {"id": "start", "task": "noop", "needs": []},
            *maps,
            {"id": "join", "task": "noop", "needs": [each["id"] for each in maps]},
        ],
    }
    run = stack.ran(document, {"lists": {f"m{number}": list(range(number * 2)) for number in range(10)}})
    assert run.status == "completed"
    assert stack.called(run.id) == Counter(
        {f"map{number}": number * 2 for number in range(1, 10)} | {"start": 1, "join": 1}
    )


def test_items_fill_the_named_parameter_and_may_be_referred_to_in_params(stack: LiveStack) -> None:
    params = {"factor": "${input.factor}", "place": "${mapIndex}", "name": "<${item.name}>"}
    document = {
        "id": "named-items",
        "steps": [
            {
                "id": "weigh",
                "task": "weigh",
                "needs": [],
                "params": params,
                "map": {"over": "${input.animals}"},
            },
            {
                "id": "plain",
                "task": "weigh",
                "needs": [],
                "params": {"factor": 1, "place": 7},
                "map": {"over": ["cat", "dog"], "as": "name"},
            },
        ],
    }
    run = stack.ran(document, {"factor": 2, "animals": [{"name": "ox"}, {"name": "emu"}]})
    assert run.status == "completed", run.error
    assert [item.output for item in stack.items(run.id, "weigh")] == ["0: <ox><ox>", "1: <emu><emu>"]
    assert [item.output for item in stack.items(run.id, "plain")] == ["7: cat", "7: dog"]


# --- what cannot be mapped --------------------------------------------------------------------------------

OVER_INPUT: dict[str, Any] = {
    "id": "over-input",
    "steps": [
        {"id": "give", "task": "give", "needs": []},
        {"id": "each", "task": "noop", "map": {"over": "${steps.give}"}},
        {"id": "after", "task": "noop"},
    ],
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a text", "a map needs a list"),
        ({"a": 1}, "a map needs a list"),
        (7, "a map needs a list"),
        (["ok", "x" * MAX_ITEM_BYTES], "item 1 has 32,770 bytes"),
        ([0] * (MAX_MAP_ITEMS + 1), "the list has 100,001 items"),
    ],
    ids=["text", "object", "number", "too-large-item", "too-many-items"],
)
def test_a_source_that_is_no_list_fails_the_map_and_writes_no_item(
    stack: LiveStack, value: Any, message: str
) -> None:
    run = stack.ran(OVER_INPUT, {"value": value})

    steps = stack.steps(run.id)
    assert run.status == "failed"
    assert (run.error["code"], run.error["stepId"]) == ("STEP_FAILED", "each")
    assert (steps["each"].status, steps["each"].error_code) == ("failed", "MAP_SOURCE_INVALID")
    assert message in steps["each"].error["message"]
    assert steps["after"].status == "cancelled"
    assert stack.items(run.id, "each") == []
    assert run.task_run_count == 3


def test_an_entry_map_whose_list_is_missing_fails_the_run(stack: LiveStack) -> None:
    document = {
        "id": "missing-list",
        "steps": [{"id": "each", "task": "noop", "needs": [], "map": {"over": "${input.gone.further}"}}],
    }
    run = stack.ran(document, {"here": 1})
    assert (run.status, stack.steps(run.id)["each"].error_code) == ("failed", "INVALID_REFERENCE")


def test_a_refused_map_skips_only_its_successors_under_continue(stack: LiveStack) -> None:
    document = OVER_INPUT | {
        "id": "refused-continue",
        "failureMode": "continue",
        "steps": [*OVER_INPUT["steps"], {"id": "beside", "task": "noop", "needs": ["give"]}],
    }
    run = stack.ran(document, {"value": "no list"})
    assert run.status == "failed"
    assert stack.statuses(run.id) == {
        "give": "completed",
        "each": "failed",
        "after": "skipped",
        "beside": "completed",
    }


# --- items that fail --------------------------------------------------------------------------------------


def failing_map(mode: str) -> dict[str, Any]:
    return {
        "id": f"failing-map-{mode}",
        "failureMode": mode,
        "steps": [
            {"id": "each", "task": "act", "needs": [], "map": {"over": "${input.list}"}},
            {"id": "after", "task": "look", "needs": ["each"]},
            {"id": "beside", "task": "noop", "needs": []},
        ],
    }


@pytest.mark.parametrize("count", [5, 30])
def test_one_failed_item_fails_a_fail_fast_run_at_once(stack: LiveStack, count: int) -> None:
    run = stack.ran(failing_map("fail-fast"), {"list": list(range(count)), "fail": {"each": [2]}})
    assert (run.status, run.error["stepId"]) == ("failed", "each")
    assert stack.items(run.id, "each")[2].error["message"] == "each was told to fail"
    assert stack.statuses(run.id)["each"] == "cancelled"
    assert stack.statuses(run.id)["after"] == "cancelled"
    assert {item.status for item in stack.items(run.id, "each")} <= {"completed", "failed", "cancelled"}


@pytest.mark.parametrize("count", [5, 30])
def test_failed_items_fail_their_map_once_all_ended_under_continue(stack: LiveStack, count: int) -> None:
    run = stack.ran(failing_map("continue"), {"list": list(range(count)), "fail": {"each": [1, 3]}})
    assert run.status == "failed"
    statuses = [item.status for item in stack.items(run.id, "each")]
    assert statuses == ["failed" if index in (1, 3) else "completed" for index in range(count)]
    each = stack.steps(run.id)["each"]
    assert (each.status, each.error_code) == ("failed", "MAP_ITEMS_FAILED")
    assert each.error["details"] == {"failed": 2, "items": count, "firstFailedIndex": 1}
    assert stack.statuses(run.id) == {"each": "failed", "after": "skipped", "beside": "completed"}
    assert stack.steps(run.id)["after"].error_code == "PREDECESSOR_FAILED"


@pytest.mark.parametrize("count", [5, 30])
def test_failed_items_leave_null_in_their_place_under_partial_merge(stack: LiveStack, count: int) -> None:
    run = stack.ran(failing_map("partial-merge"), {"list": list(range(count)), "fail": {"each": [0, 4]}})
    assert run.status == "partial"
    assert stack.statuses(run.id) == {"each": "completed", "after": "completed", "beside": "completed"}
    seen = stack.output(stack.steps(run.id)["after"])["each"]
    assert seen == [None if index in (0, 4) else "each" for index in range(count)]


@pytest.mark.parametrize("count", [1, 5, 30])
def test_a_map_whose_items_all_failed_has_failed_under_partial_merge(stack: LiveStack, count: int) -> None:
    fail = {"each": list(range(count))}
    run = stack.ran(failing_map("partial-merge"), {"list": list(range(count)), "fail": fail})
    assert run.status == "partial"
    assert stack.statuses(run.id) == {"each": "failed", "after": "skipped", "beside": "completed"}
