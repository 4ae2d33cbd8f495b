"""Trouble that other engines had with branches and joins, by the number of their issue."""

from __future__ import annotations

from typing import Any

import pytest
from support.stubbed_runs import StubbedRuns

from pipeweave import TaskError, TaskResult
from pipeweave.errors import InvalidSpec


def begin(runs: StubbedRuns, *steps: dict[str, Any], input: Any = None, **document: Any) -> Any:
    """Store a pipeline of these steps, and begin a run of it."""
    runs.put({"id": "trouble", "steps": list(steps), **document})
    return runs.begin("trouble", input)


def fail() -> None:
    raise TaskError("it broke", code="BROKEN")


@pytest.mark.parametrize("way", ["left", "right", "neither"])
def test_airflow_7885_what_follows_a_branch_runs_whichever_branch_was_taken(
    runs: StubbedRuns, way: str
) -> None:
    """There, the task after two branches was skipped, because one of the branches was."""
    runs.serve(work=lambda: "done")
    run_id = begin(
        runs,
        {
            "id": "way",
            "choice": [
                {"condition": "input.way == 'left'", "steps": [{"id": "left", "task": "work"}]},
                {"condition": "input.way == 'right'", "steps": [{"id": "right", "task": "work"}]},
            ],
        },
        {"id": "after", "task": "work"},
        {"id": "last", "task": "work"},
        input={"way": way},
    )
    assert runs.outcome(run_id) == ("completed", "done")
    assert runs.step(run_id, "last") == "completed"


def test_airflow_7885_a_step_with_a_false_condition_does_not_skip_what_follows_it(runs: StubbedRuns) -> None:
    runs.serve(work=lambda: "done")
    run_id = begin(
        runs, {"id": "maybe", "task": "work", "condition": "false || null"}, {"id": "after", "task": "work"}
    )
    assert runs.outcome(run_id) == ("completed", "done")
    assert runs.driver.statuses(run_id) == {"maybe": "skipped", "after": "completed"}


def test_airflow_55187_a_step_that_nobody_chose_does_not_run(runs: StubbedRuns) -> None:
    """There, a branch task that had gone another way counted as the one success that a later task needs."""
    runs.serve(
        work=lambda: "done", one=lambda: TaskResult(1, ["two"]), two=lambda: TaskResult(2, ["dead_end"])
    )
    run_id = begin(
        runs,
        {"id": "one", "task": "one"},
        {"id": "two", "task": "two", "needs": ["one"]},
        {"id": "dead_end", "task": "work", "needs": ["two"]},
        {"id": "other_way", "task": "work", "needs": ["two"]},
        {"id": "late", "task": "work", "needs": ["one", "other_way"]},
    )
    assert runs.outcome(run_id)[0] == "completed"
    assert runs.driver.statuses(run_id) == {
        **dict.fromkeys(("one", "two", "dead_end"), "completed"),
        **dict.fromkeys(("other_way", "late"), "skipped"),
    }


def test_airflow_55187_as_choices_such_a_step_cannot_be_stored(runs: StubbedRuns) -> None:
    """It would be in a branch, and follow a step of a branch that excludes this one."""
    with pytest.raises(InvalidSpec, match="in another branch of choice 'one'"):
        begin(
            runs,
            {"id": "one", "choice": [{"condition": "input.direct", "next": ["late"]}, {"next": ["on"]}]},
            {"id": "on", "task": "work", "needs": ["one"]},
            {"id": "late", "task": "work", "needs": ["one", "on"]},
        )


def test_airflow_19222_and_42581_who_cleans_up_comes_after_all_others_whatever_they_came_to(
    runs: StubbedRuns,
) -> None:
    """The two issues could not be read; the design names them for rules that mixed up skipped and failed."""
    runs.serve(work=lambda: "done", fail=fail)
    run_id = begin(
        runs,
        {
            "parallel": [
                {"id": "good", "task": "work"},
                {"id": "bad", "task": "fail"},
                {"id": "passed_over", "task": "work", "condition": "input.wanted"},
                {"id": "late", "sleep": "1h"},
            ]
        },
        {"id": "clean_up", "task": "work", "join": "all-done"},
        input={"wanted": False},
        failureMode="continue",
    )
    assert runs.step(run_id, "clean_up") == "pending"
    runs.wait(hours=2)
    statuses = runs.driver.statuses(run_id)
    assert (statuses["bad"], statuses["passed_over"], statuses["clean_up"]) == (
        "failed",
        "skipped",
        "completed",
    )


def test_conductor_js_135_a_join_waits_for_each_member_of_its_block(runs: StubbedRuns) -> None:
    """There, the join was made without names of branches, and completed at once."""
    runs.serve(work=lambda: "done")
    members = [{"id": "quick", "task": "work"}, {"id": "slow", "sleep": "10s"}]
    run_id = begin(runs, {"parallel": members}, {"id": "join", "task": "work"})
    assert runs.driver.statuses(run_id) == {"quick": "completed", "slow": "waiting", "join": "pending"}
    runs.wait(seconds=11)
    assert runs.outcome(run_id) == ("completed", "done")


def test_conductor_18_a_join_behind_many_items_begins_after_the_last_of_them(runs: StubbedRuns) -> None:
    """There, it completed before thousands of branches had ended, and had nothing in its input."""
    ended: list[int] = []
    runs.serve(work=lambda item: ended.append(item), count=lambda: len(ended))
    run_id = begin(
        runs,
        {"id": "items", "task": "work", "map": {"over": "${input.items}", "as": "item"}},
        {"id": "join", "task": "count"},
        input={"items": list(range(500))},
    )
    assert runs.outcome(run_id) == ("completed", 500)


@pytest.mark.parametrize("failure", ["as the run", "settle"])
@pytest.mark.parametrize("default", [None, [], [{"id": "skip", "task": "work"}]])
def test_netflix_conductor_2758_a_join_ends_where_a_branch_has_ended_by_its_default(
    runs: StubbedRuns, default: list[Any] | None, failure: str
) -> None:
    """There, the join waited for ever for the step of the case that was not taken."""
    runs.serve(work=lambda: "done")
    cases: list[dict[str, Any]] = [
        {"condition": "input.creates", "steps": [{"id": "create", "task": "work"}]}
    ]
    cases += [] if default is None else [{"steps": default}]
    members = [
        {"id": "record", "task": "work"},
        {"steps": [{"id": "look", "task": "work"}, {"id": "way", "choice": cases}]},
    ]
    block = members if failure == "as the run" else {"failure": failure, "steps": members}
    run_id = begin(runs, {"parallel": block}, {"id": "join", "task": "work"}, input={"creates": False})
    assert runs.outcome(run_id) == ("completed", "done")
    statuses = runs.driver.statuses(run_id)
    assert (statuses["create"], statuses["join"]) == ("skipped", "completed")
