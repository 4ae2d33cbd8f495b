"""Conditions on the kinds of task runs, as SQL."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.spec import CALLED, ITEMS, KINDS, STEPS, WITH_ITEMS, MapSpec, StepSpec

STEP, MAP = StepSpec("s", "t"), StepSpec("m", "t", map=MapSpec([1], "number"))


@pytest.mark.parametrize(
    ("kinds", "condition"),
    [
        # As the partial indexes task_runs_live and task_runs_waiting are written.
        (CALLED, "t.kind <> 'map'"),
        (STEPS, "t.kind <> 'item'"),
        (ITEMS, "t.kind = 'item'"),
        (WITH_ITEMS, "t.kind = 'map'"),
    ],
)
def test_a_set_of_kinds_is_the_shortest_condition(kinds: frozenset[str], condition: str) -> None:
    assert kind_sql.kind_in(kinds) == condition
    assert kind_sql.kind_in(kinds, "i") == condition.replace("t.", "i.")


def test_a_further_kind_makes_lists_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_sql, "KINDS", (*KINDS, "wait"))
    assert kind_sql.kind_in({"map", "wait"}) == "t.kind IN ('map', 'wait')"
    assert kind_sql.kind_in({"task", "item", "map"}) == "t.kind <> 'wait'"
    monkeypatch.setattr(kind_sql, "KINDS", (*KINDS, "wait", "sleep"))
    assert kind_sql.kind_in({"task", "map", "item"}) == "t.kind NOT IN ('wait', 'sleep')"


@pytest.mark.parametrize("step", [STEP, MAP])
def test_a_step_says_the_same_of_itself_as_its_kind(step: StepSpec) -> None:
    assert step.kind in STEPS
    assert step.is_called == (step.kind in CALLED)
    assert step.has_items == (step.kind in WITH_ITEMS)


def test_only_a_step_with_items_runs_over_something_and_names_its_item() -> None:
    assert (MAP.over, MAP.item_name) == ([1], "number")
    assert (STEP.over, STEP.item_name) == (None, None)
