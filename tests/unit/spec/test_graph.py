"""The graph of a pipeline: order, levels, what is wrong with it, dry runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec.graph import Graph, dry_run, validate_graph
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import MapSpec, PipelineSpec, StepSpec


@dataclass(frozen=True)
class Limited:
    concurrency: int


def spec_of(edges: dict[str, list[str]], tasks: dict[str, str] | None = None) -> PipelineSpec:
    named = tasks or {}
    steps = (StepSpec(step, named.get(step, step), tuple(needs)) for step, needs in edges.items())
    return PipelineSpec("p", tuple(steps))


DIAMOND = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []}


def codes(errors: list[GraphError]) -> list[str]:
    return [each.code for each in errors]


def test_order_is_topological_and_lexical_among_equals() -> None:
    assert Graph(spec_of(DIAMOND)).order == ("a", "b", "c", "d")
    assert Graph(spec_of({"z": [], "a": ["z"], "m": [], "b": []})).order == ("b", "m", "z", "a")


def test_order_does_not_depend_on_the_order_of_the_document() -> None:
    edges = {f"s{i:02}": [f"s{j:02}" for j in range(i) if (i * j) % 3 == 1] for i in range(40)}
    expected = Graph(spec_of(edges)).order
    for seed in range(5):
        shuffled = list(edges.items())
        random.Random(seed).shuffle(shuffled)
        assert Graph(spec_of(dict(shuffled))).order == expected


def test_levels_entries_ends_and_neighbours() -> None:
    graph = Graph(spec_of({**DIAMOND, "lone": [], "late": ["d", "lone"]}))
    assert graph.levels == (("a", "lone"), ("b", "c"), ("d",), ("late",))
    assert graph.entries == ("a", "lone")
    assert graph.ends == ("late",)
    assert graph.joins == ("d", "late")
    assert graph.successors["a"] == ("b", "c")
    assert graph.predecessors["d"] == ("b", "c")
    assert graph.ancestors("d") == {"a", "b", "c"}
    assert graph.descendants("lone") == {"late"}


def test_a_valid_graph_has_no_errors() -> None:
    assert validate_graph(spec_of(DIAMOND)) == []


def test_a_cycle_is_told_as_a_closed_path_along_the_edges() -> None:
    errors = validate_graph(
        spec_of({"start": [], "c": ["b"], "a": ["c", "start"], "b": ["a"], "after": ["b"]})
    )
    assert codes(errors) == ["CYCLE"]
    assert errors[0].steps == ("a", "b", "c", "a")
    assert "a → b → c → a" in errors[0].message


def test_a_step_that_needs_itself_is_a_cycle() -> None:
    assert validate_graph(spec_of({"a": [], "b": ["b", "a"]}))[0].steps == ("b", "b")


def test_separate_cycles_are_told_each() -> None:
    errors = validate_graph(spec_of({"x": [], "a": ["b", "x"], "b": ["a"], "c": ["d"], "d": ["c"]}))
    assert [each.steps for each in errors] == [("a", "b", "a"), ("c", "d", "c")]


def test_unknown_duplicate_and_missing_entries_name_their_steps() -> None:
    steps = (StepSpec("fetch", "t"), StepSpec("fetch", "t"), StepSpec("b", "t", ("fetsh",)))
    errors = validate_graph(PipelineSpec("p", steps))
    assert codes(errors) == ["DUPLICATE_STEP", "UNKNOWN_STEP"]
    assert errors[0].steps == ("fetch",)
    assert errors[1].steps == ("b", "fetsh")
    assert "did you mean 'fetch'" in errors[1].message
    assert "NO_ENTRY" in codes(validate_graph(spec_of({"a": ["b"], "b": ["a"]})))
    assert codes(validate_graph(PipelineSpec("p", ()))) == ["NO_ENTRY"]


def test_too_many_steps_and_too_many_edges_are_refused() -> None:
    assert codes(validate_graph(spec_of({str(i): [] for i in range(5_001)}))) == ["TOO_MANY_STEPS"]
    wide: dict[str, list[str]] = {f"a{i}": [] for i in range(500)} | {
        f"b{i}": [f"a{j}" for j in range(500)] for i in range(500)
    }
    assert codes(validate_graph(spec_of(wide))) == ["TOO_MANY_STEPS"]


@pytest.mark.parametrize("edges", [{"a": ["a"]}, {"a": ["b"]}])
def test_a_graph_is_not_built_from_a_wrong_spec(edges: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidSpec):
        Graph(spec_of(edges))


def test_long_chains_and_many_edges_need_no_recursion() -> None:
    chain = {str(i): [str(i - 1)] if i else [] for i in range(5_000)}
    graph = Graph(spec_of(chain))
    assert len(graph.levels) == 5_000
    assert len(graph.ancestors("4999")) == 4_999
    circle = {**chain, "0": ["4999"]}
    assert len(validate_graph(spec_of(circle))[-1].steps) == 5_001
    layers = {
        f"{i // 50:03}.{i % 50:02}": [f"{i // 50 - 1:03}.{j:02}" for j in range(50)] if i >= 50 else []
        for i in range(2_000)
    }
    assert validate_graph(spec_of(layers)) == []
    assert len(Graph(spec_of(layers)).levels) == 40


def test_a_dry_run_shows_levels_joins_and_what_they_wait_for() -> None:
    shown = dry_run(spec_of({**DIAMOND, "e": ["d"]})).to_json()
    assert shown["valid"] is True
    assert shown["executionPlan"] == [
        {"step": 0, "tasks": ["a"], "type": "entry"},
        {"step": 1, "tasks": ["b", "c"], "type": "parallel"},
        {"step": 2, "tasks": ["d"], "type": "join", "waitsFor": ["b", "c"], "joins": {"d": ["b", "c"]}},
        {"step": 3, "tasks": ["e"], "type": "end"},
    ]


def test_a_dry_run_of_a_wrong_pipeline_tells_the_errors_and_no_plan() -> None:
    result = dry_run(spec_of({"a": ["b"], "b": ["a"]}), {})
    assert not result.valid
    assert {each.code for each in result.errors} == {"NO_ENTRY", "CYCLE", "UNKNOWN_TASK"}
    assert result.plan == ()


def test_unknown_tasks_make_a_dry_run_invalid() -> None:
    result = dry_run(spec_of({"a": []}, {"a": "cuont"}), {"count": Limited(0)})
    assert result.errors[0].code == "UNKNOWN_TASK"
    assert result.errors[0].steps == ("a",)
    assert "did you mean 'count'" in result.errors[0].message


def test_warnings_name_parts_depth_and_limits() -> None:
    parts = dry_run(spec_of({"a": [], "b": ["a"], "x": []})).warnings
    assert [(each.code, each.steps) for each in parts] == [("DISCONNECTED", ("a", "x"))]
    deep = dry_run(spec_of({f"{i:02}": [f"{i - 1:02}"] if i else [] for i in range(21)})).warnings
    assert codes(list(deep)) == ["DEPTH_OVER_20"]
    limited = dry_run(
        spec_of({"a": [], "b": ["a"], "c": ["a"]}, {"b": "t", "c": "t"}), {"a": Limited(1), "t": Limited(1)}
    )
    assert [(each.code, each.steps) for each in limited.warnings] == [("CONCURRENCY_LIMIT", ("b", "c"))]
    mapped = PipelineSpec("p", (StepSpec("m", "t", map=MapSpec("${input}")),))
    assert codes(list(dry_run(mapped, {"t": Limited(3)}).warnings)) == ["CONCURRENCY_LIMIT"]
