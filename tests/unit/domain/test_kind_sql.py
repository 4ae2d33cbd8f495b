"""Conditions on the kinds of task runs, as SQL."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.domain import kind_sql
from pipeweave.spec import (
    CALLED,
    ENGINE,
    ITEMS,
    KINDS,
    STEPS,
    WITH_ITEMS,
    Case,
    Choice,
    MapSpec,
    Sleep,
    StepSpec,
)

STEP, MAP = StepSpec("s", "t"), StepSpec("m", "t", map=MapSpec([1], "number"))
CHOICE = StepSpec("c", "pipeweave:choice", decides=Choice((Case("true", ()),)))
SLEEP = StepSpec("w", "pipeweave:sleep", decides=Sleep(ms=1))


@pytest.mark.parametrize(
    ("kinds", "condition"),
    [
        # It implies `kind <> 'map'`, as the partial indexes task_runs_live and task_runs_waiting are written.
        (CALLED, "t.kind IN ('task', 'item')"),
        (STEPS, "t.kind <> 'item'"),
        (ITEMS, "t.kind = 'item'"),
        (WITH_ITEMS, "t.kind = 'map'"),
    ],
)
def test_a_set_of_kinds_is_the_shortest_condition(kinds: frozenset[str], condition: str) -> None:
    assert kind_sql.kind_in(kinds) == condition
    assert kind_sql.kind_in(kinds, "i") == condition.replace("t.", "i.")


def test_a_long_set_of_kinds_names_the_others() -> None:
    assert kind_sql.kind_in({"map", "wait"}) == "t.kind IN ('map', 'wait')"
    assert kind_sql.kind_in(set(KINDS) - {"wait"}) == "t.kind <> 'wait'"
    assert kind_sql.kind_in(set(KINDS) - {"choice", "wait"}) == "t.kind NOT IN ('choice', 'wait')"


@pytest.mark.parametrize("step", [STEP, MAP, CHOICE, SLEEP])
def test_a_step_says_the_same_of_itself_as_its_kind(step: StepSpec) -> None:
    assert step.kind in STEPS
    assert step.is_called == (step.kind in CALLED)
    assert step.has_items == (step.kind in WITH_ITEMS)
    assert step.has_task == (step.kind not in ENGINE)


def test_only_a_step_with_items_runs_over_something_and_names_its_item() -> None:
    assert (MAP.over, MAP.item_name) == ([1], "number")
    assert (STEP.over, STEP.item_name) == (None, None)
