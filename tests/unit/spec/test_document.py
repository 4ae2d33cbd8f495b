"""Pipelines as documents: what they mean, and every mistake with the field it is in."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.size_limits import MAX_MAP_ITEMS, MAX_SPEC_BYTES
from pipeweave.spec.document import parse_spec


def needs_of(*steps: dict[str, Any]) -> dict[str, list[str]]:
    return {step.id: list(step.needs) for step in parse_spec({"id": "p", "steps": list(steps)}).steps}


def mistakes(document: Any) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(document)
    return {each.field: each.message for each in refused.value.errors}


def step_mistakes(*steps: Any, **more: Any) -> dict[str, str]:
    return mistakes({"id": "p", "steps": list(steps), **more})


def test_limits_of_time_are_normalised_to_ms_and_shown_only_when_given() -> None:
    given = {"id": "p", "timeout": "5m", "idleTimeout": 1.5, "steps": [{"task": "t"}]}
    spec = parse_spec(given)
    assert (spec.timeout_ms, spec.idle_timeout_ms) == (300_000, 1_500)
    assert parse_spec(spec.to_json()) == spec
    assert spec.to_json() == parse_spec({**given, "timeout": 300, "idleTimeout": "1500ms"}).to_json()
    without = parse_spec({"id": "p", "timeout": None, "steps": [{"task": "t"}]})
    assert without.to_json() == {
        "id": "p",
        "failureMode": "fail-fast",
        "steps": [{"id": "t", "task": "t", "needs": []}],
    }


def test_the_normalised_spec_is_what_the_documentation_shows() -> None:
    spec = parse_spec(
        {
            "id": "stdlib-report",
            "description": "counts",
            "failureMode": "continue",
            "priority": 5,
            "steps": [
                {"task": "list_files"},
                {
                    "task": "count",
                    "params": {"deep": True},
                    "map": {"over": "${steps.list_files.paths}", "as": "path"},
                },
                {"id": "report", "task": "report", "needs": [], "params": {"rows": "${steps.count}"}},
            ],
        }
    )
    assert spec.to_json() == {
        "id": "stdlib-report",
        "description": "counts",
        "failureMode": "continue",
        "priority": 5,
        "steps": [
            {"id": "list_files", "task": "list_files", "needs": []},
            {
                "id": "count",
                "task": "count",
                "needs": ["list_files"],
                "params": {"deep": True},
                "map": {"over": "${steps.list_files.paths}", "as": "path"},
            },
            {"id": "report", "task": "report", "needs": ["count"], "params": {"rows": "${steps.count}"}},
        ],
    }
    assert parse_spec(spec.to_json()) == spec
    assert parse_spec(spec.to_json()).spec_hash == spec.spec_hash


def test_the_hash_ignores_the_order_of_keys_and_sees_everything_else() -> None:
    first = parse_spec({"id": "p", "steps": [{"task": "t", "params": {"a": 1, "b": 2}}]})
    second = parse_spec({"steps": [{"params": {"b": 2, "a": 1}, "task": "t"}], "id": "p"})
    other = parse_spec({"id": "p", "steps": [{"task": "t", "params": {"a": 1, "b": 3}}]})
    assert first.spec_hash == second.spec_hash != other.spec_hash
    assert len(first.spec_hash) == 64
    assert first.spec_hash == first.spec_hash.lower()


def test_a_step_without_needs_follows_the_one_before_it() -> None:
    assert needs_of(
        {"task": "a"}, {"task": "b"}, {"task": "c", "needs": []}, {"task": "d", "needs": ["b", "a"]}
    ) == {
        "a": [],
        "b": ["a"],
        "c": [],
        "d": ["a", "b"],
    }


def test_parallel_members_follow_what_is_before_and_precede_what_is_after() -> None:
    found = needs_of(
        {"task": "a"},
        {"parallel": [{"task": "b"}, {"task": "c", "needs": []}]},
        {"task": "d"},
        {"parallel": [{"task": "e"}, {"task": "f"}]},
        {"parallel": [{"task": "g"}]},
    )
    assert found == {"a": [], "b": ["a"], "c": [], "d": ["b", "c"], "e": ["d"], "f": ["d"], "g": ["e", "f"]}


def test_references_add_their_steps_to_needs_in_document_order_without_doubles() -> None:
    found = needs_of(
        {"task": "a"},
        {"task": "b", "needs": []},
        {"task": "c", "needs": ["b"], "params": {"x": ["${steps.a.y} and ${steps.b}"]}},
        {"task": "d", "needs": [], "map": "${steps.c}", "params": {"at": "${mapIndex} ${item.id}"}},
    )
    assert found == {"a": [], "b": [], "c": ["a", "b"], "d": ["c"]}


def test_a_step_without_id_takes_that_of_its_task_and_a_number() -> None:
    found = needs_of({"task": "t"}, {"task": "t"}, {"id": "t_3", "task": "x"}, {"task": "t"}, {"task": "t"})
    assert list(found) == ["t", "t_2", "t_3", "t_4", "t_5"]


def test_a_map_may_be_short_or_a_list() -> None:
    spec = parse_spec(
        {"id": "p", "steps": [{"task": "t", "map": "${input.rows}"}, {"task": "u", "map": [1, "${input}"]}]}
    )
    assert [step.to_json()["map"] for step in spec.steps] == [
        {"over": "${input.rows}", "as": None},
        {"over": [1, "${input}"], "as": None},
    ]


def test_the_id_may_come_from_outside_but_must_agree() -> None:
    assert parse_spec({"steps": [{"task": "t"}]}, id="named").id == "named"
    with pytest.raises(InvalidSpec, match="'p'"):
        parse_spec({"id": "p", "steps": [{"task": "t"}]}, id="q")


@pytest.mark.parametrize(
    ("document", "field", "why"),
    [
        ([], "", "must be an object"),
        ({"steps": [{"task": "t"}]}, "id", "is required"),
        ({"id": "p"}, "steps", "is required"),
        ({"id": "p", "steps": []}, "steps", "at least one"),
        ({"id": "p", "steps": {}}, "steps", "must be a list"),
        ({"id": "p q", "steps": [{"task": "t"}]}, "id", "valid id"),
        ({"id": 7, "steps": [{"task": "t"}]}, "id", "must be a text, not a number"),
        ({"id": "p", "stepz": [], "steps": [{"task": "t"}]}, "stepz", "did you mean 'steps'"),
        ({"id": "p", "failureMode": "stop", "steps": [{"task": "t"}]}, "failureMode", "fail-fast, continue"),
        ({"id": "p", "priority": "high", "steps": [{"task": "t"}]}, "priority", "whole number"),
        ({"id": "p", "priority": True, "steps": [{"task": "t"}]}, "priority", "whole number"),
        ({"id": "p", "priority": 2**31, "steps": [{"task": "t"}]}, "priority", "must lie"),
        ({"id": "p", "timeout": "soon", "steps": [{"task": "t"}]}, "timeout", "30s, 5m, 2h"),
        ({"id": "p", "timeout": 0, "steps": [{"task": "t"}]}, "timeout", "30s, 5m, 2h"),
        ({"id": "p", "timeout": True, "steps": [{"task": "t"}]}, "timeout", "30s, 5m, 2h"),
        ({"id": "p", "idleTimeout": "367d", "steps": [{"task": "t"}]}, "idleTimeout", "366 days"),
        ({"id": "p", "timeoutMs": 1.5, "steps": [{"task": "t"}]}, "timeoutMs", "whole number"),
        ({"id": "p", "idleTimeoutMs": 0, "steps": [{"task": "t"}]}, "idleTimeoutMs", "whole number"),
        (
            {"id": "p", "timeout": 1, "timeoutMs": 1, "steps": [{"task": "t"}]},
            "timeoutMs",
            "cannot be given together",
        ),
        ({"id": "p", "description": 1, "steps": [{"task": "t"}]}, "description", "must be a text"),
        ({"id": "p", "description": "x" * 10_001, "steps": [{"task": "t"}]}, "description", "longer"),
        ({"id": "p", "defaults": [], "steps": [{"task": "t"}]}, "defaults", "must be an object"),
    ],
)
def test_a_wrong_pipeline_is_refused_with_its_field(document: Any, field: str, why: str) -> None:
    assert why in mistakes(document)[field]


@pytest.mark.parametrize(
    ("step", "field", "why"),
    [
        ("t", "", "must be a step, not a text"),
        ({}, ".task", "is required"),
        ({"task": "a b"}, ".task", "valid id"),
        ({"task": "t", "id": 1}, ".id", "must be a text"),
        ({"task": "t", "need": []}, ".need", "did you mean 'needs'"),
        ({"task": "t", "needs": "first"}, ".needs", "must be a list"),
        ({"task": "t", "needs": ["frist"]}, ".needs[0]", "did you mean 'first'"),
        ({"task": "t", "needs": ["first", 3]}, ".needs[1]", "must be the id of a step"),
        ({"task": "t", "params": [1]}, ".params", "must be an object"),
        ({"task": "t", "params": {"x": {"y": "${steps.nope}"}}}, ".params.x.y", "'nope' is not a step"),
        ({"task": "t", "params": {"x": "${step.first}"}}, ".params.x", "starts with 'step'"),
        ({"task": "t", "params": {"x": "${item}"}}, ".params.x", "without `map`"),
        ({"task": "t", "params": {"x": "${steps.t}"}}, ".params.x", "own output"),
        ({"task": "t", "map": "rows"}, ".map", "reference"),
        ({"task": "t", "map": 5}, ".map", "must be a list"),
        ({"task": "t", "map": {}}, ".map.over", "is required"),
        ({"task": "t", "map": {"over": "${item}"}}, ".map.over", "inside `map`"),
        ({"task": "t", "map": {"over": "${input}", "az": "x"}}, ".map.az", "did you mean 'as'"),
        ({"task": "t", "map": {"over": "${input}", "as": "not a name"}}, ".map.as", "name of a parameter"),
        (
            {"task": "t", "map": {"over": "${input}", "as": "x"}, "params": {"x": 1}},
            ".map.as",
            "in `params`",
        ),
        ({"parallel": []}, ".parallel", "must be a list of steps"),
        ({"parallel": [{"task": "t"}], "needs": []}, ".needs", "next to `parallel`"),
        ({"parallel": [{"parallel": [{"task": "t"}]}]}, ".parallel[0].parallel", "nested"),
        ({"parallel": [{"task": "t"}, {"task": "u", "needs": ["x"]}]}, ".parallel[1].needs[0]", "not a step"),
        ({"task": "t", "params": {"x": float("nan")}}, ".params.x", "nan"),
        ({"task": "t", "params": {"x": {1: 2}}}, ".params.x", "keys must be text"),
    ],
)
def test_a_wrong_step_is_refused_with_its_field(step: Any, field: str, why: str) -> None:
    assert why in step_mistakes({"task": "first"}, step)[f"steps[1]{field}"]


def test_two_steps_of_one_id_are_refused_at_the_second() -> None:
    found = step_mistakes({"task": "t", "id": "a"}, {"task": "u"}, {"task": "v", "id": "a"})
    assert found == {"steps[2].id": "'a' is the id of steps[0], too"}


def test_all_mistakes_are_told_at_once() -> None:
    assert set(step_mistakes({"task": "a", "neds": []}, {"id": "?"}, failureMode=1)) == {
        "failureMode",
        "steps[0].neds",
        "steps[1].id",
        "steps[1].task",
    }


def test_a_cycle_is_refused_with_its_path_for_machines() -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": [{"task": "s"}, {"task": "a", "needs": ["b"]}, {"task": "b"}]})
    assert refused.value.errors[0].code == "cycle"
    assert refused.value.context["graphErrors"] == [
        {"code": "CYCLE", "message": "the steps wait for each other: a → b → a", "steps": ["a", "b", "a"]}
    ]


def test_a_document_that_is_too_large_is_refused_before_it_is_built() -> None:
    half = [{"task": "t"} for _ in range(2_000)]
    found = step_mistakes({"parallel": half}, {"parallel": half})
    assert any("200000 edges" in why for why in found.values())
    assert "5001" in step_mistakes(*({"task": "t"} for _ in range(5_001)))["steps"]
    assert "more than" in step_mistakes({"task": "t", "params": {"x": "a" * MAX_SPEC_BYTES}})[""]
    aliased: Any = "lol"
    for _ in range(30):
        aliased = [aliased] * 10
    assert "more than" in step_mistakes({"task": "t", "params": {"x": aliased}})[""]


def test_five_thousand_steps_are_read() -> None:
    spec = parse_spec({"id": "p", "steps": [{"task": "t", "id": f"s{place}"} for place in range(5_000)]})
    assert spec.steps[-1].needs == ("s4998",)


def test_many_mistakes_with_long_names_are_answered_quickly_and_not_all() -> None:
    steps = [
        {"id": f"{'x' * 180}{place}", "task": "t", "needs": [f"{'y' * 180}{place}"]} for place in range(3_000)
    ]
    assert len(step_mistakes(*steps)) == 100


@pytest.mark.parametrize(
    ("steps", "code", "named"),
    [
        ([{"task": "a"}, {"task": "b", "needs": ["x"]}], "UNKNOWN_STEP", ["b", "x"]),
        ([{"task": "a", "params": {"p": "${steps.x}"}}], "UNKNOWN_STEP", ["a", "x"]),
        ([{"task": "a", "id": "s"}, {"task": "b", "id": "s"}], "DUPLICATE_STEP", ["s"]),
        ([{"task": "a"}] * 5_001, "TOO_MANY_STEPS", []),
    ],
)
def test_mistakes_in_the_graph_name_their_steps_for_machines(
    steps: list[Any], code: str, named: list[str]
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"id": "p", "steps": steps})
    (found,) = refused.value.to_problem()["graphErrors"]
    assert (found["code"], found["steps"]) == (code, named)


def test_a_written_list_with_more_items_than_a_map_takes_is_refused() -> None:
    items = [0] * (MAX_MAP_ITEMS + 1)
    why = "has 100,001 items, a map takes at most 100,000"
    assert step_mistakes({"task": "a", "map": items}) == {"steps[0].map": why}
    assert step_mistakes({"task": "a", "map": {"over": items}}) == {"steps[0].map.over": why}
