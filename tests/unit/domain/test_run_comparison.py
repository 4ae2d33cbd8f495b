"""Two runs of a pipeline, step by step."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pipeweave.orchestrator.domain.run_comparison import (
    OutcomeInRun,
    StepComparison,
    Summary,
    compare,
    summary,
)


def step(id: str, took: float | None = 10.0, gave: str | None = "aa", **more: Any) -> OutcomeInRun:
    fields: dict[str, Any] = {
        "step_id": id,
        "task_run_id": UUID(int=1),
        "task_id": id,
        "kind": "task",
        "status": "completed",
        "attempt": 1,
        "duration_ms": took,
        "output_hash": gave,
        "code_version": 1,
        "error_code": None,
        "items": None,
    }
    return OutcomeInRun(**fields | more)


def by_id(found: list[StepComparison]) -> dict[str, StepComparison]:
    return {each.step_id: each for each in found}


def test_steps_that_make_most_of_the_difference_come_first_whichever_way() -> None:
    left = [step("a", 10), step("b", 100), step("c", 50), step("d", 5)]
    right = [step("a", 11), step("b", 60), step("c", 350), step("d", 5)]
    found = compare(left, right)
    assert [(each.step_id, each.delta_ms) for each in found] == [
        ("c", 300),
        ("b", -40),
        ("a", 1),
        ("d", 0),
    ]


def test_steps_without_a_duration_come_last_in_the_order_of_the_pipeline() -> None:
    left = [step("a", None), step("b", None), step("c", 5)]
    found = compare(left, [step("a", 5), step("b", None), step("c", 5)])
    assert [(each.step_id, each.delta_ms) for each in found] == [("c", 0), ("a", None), ("b", None)]


def test_a_step_of_one_run_alone_costs_what_it_took() -> None:
    found = compare([step("a", 10), step("gone", 40)], [step("a", 15), step("new", 70)])
    assert [(each.step_id, each.presence, each.delta_ms) for each in found] == [
        ("new", "onlyRight", None),
        ("gone", "onlyLeft", None),
        ("a", "both", 5),
    ]
    assert (found[0].left, found[1].right) == (None, None)


def test_the_same_output_is_proven_by_its_hash_alone() -> None:
    left = [step("a", gave="aa"), step("b", gave="aa"), step("c", gave=None)]
    found = by_id(compare(left, [step("a", gave="aa"), step("b", gave="bb"), step("c", gave="cc")]))
    assert [found[each].has_same_output for each in "abc"] == [True, False, None]


def test_a_step_is_changed_by_status_attempts_code_or_items() -> None:
    changes: dict[str, Any] = {
        "status": "failed",
        "attempt": 2,
        "code_version": 2,
        "task_id": "other",
        "items": 3,
    }
    for name, value in changes.items():
        assert compare([step("a")], [step("a", **{name: value})])[0].is_changed, name
    assert not compare([step("a", 1, "aa")], [step("a", 9, "bb")])[0].is_changed


def test_the_summary_counts_each_kind() -> None:
    left = [step("a"), step("b"), step("gone"), step("c", gave=None, status="failed")]
    right = [step("a"), step("b", gave="bb", attempt=2), step("c"), step("new")]
    assert summary(compare(left, right)) == Summary(
        both=3, only_left=1, only_right=1, changed=2, same_output=1, other_output=1
    )
