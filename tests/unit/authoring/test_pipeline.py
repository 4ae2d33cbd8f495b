"""`@pipeline`: calling tasks draws a graph."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Context, pipeline, task
from pipeweave.authoring.pipeline import Pipeline, registered_pipelines
from pipeweave.errors import InvalidSpec
from pipeweave.spec import parse_spec


@task
def list_files(root: str = "/usr") -> dict[str, Any]:
    return {"paths": [root]}


@task
def count(path: str, deep: bool = False) -> int:
    return len(path)


@task
def report(rows: list[int], ctx: Context | None = None, *, title: str = "") -> int:
    return sum(rows)


def steps_of(drawn: Pipeline[..., Any]) -> list[dict[str, Any]]:
    return drawn.spec.to_json()["steps"]  # type: ignore[no-any-return]


def test_the_example_of_the_documentation_draws_the_documented_spec() -> None:
    @pipeline(id="stdlib-report", failure_mode="continue", priority=7, timeout="2h", idle_timeout=90)
    def stdlib_report() -> None:
        """Count things.

        In detail.
        """
        files = list_files()
        counts = count.map(files["paths"], deep=True)
        report(counts)

    assert stdlib_report.spec.to_json() == {
        "id": "stdlib-report",
        "description": "Count things.",
        "failureMode": "continue",
        "priority": 7,
        "timeoutMs": 7_200_000,
        "idleTimeoutMs": 90_000,
        "steps": [
            {"id": "list_files", "task": "list_files", "needs": []},
            {
                "id": "count",
                "task": "count",
                "needs": ["list_files"],
                "params": {"deep": True},
                "map": {"over": "${steps.list_files.paths}", "as": None},
            },
            {"id": "report", "task": "report", "needs": ["count"], "params": {"rows": "${steps.count}"}},
        ],
        "inputSchema": {
            "fields": [{"name": "root", "label": "Root", "required": False, "type": "string"}],
            "strict": True,
        },
    }
    assert parse_spec(stdlib_report.spec.to_json()).spec_hash == stdlib_report.spec.spec_hash
    assert registered_pipelines()["stdlib-report"] is stdlib_report.spec
    assert set(stdlib_report.tasks) == {"list_files", "count", "report"}


def test_parameters_stand_for_the_runs_input_and_their_defaults_for_its_defaults() -> None:
    @pipeline
    def p(root: str, depth: dict[str, int], title: str = "none") -> None:
        files = list_files(root)
        mixed: Any = [files, depth["a"], 1]
        report(mixed, title=title)

    first, second = steps_of(p)
    assert first["params"] == {"root": "${input.root}"}
    assert second["params"] == {
        "rows": ["${steps.list_files}", "${input.depth.a}", 1],
        "title": "${input.title}",
    }
    assert p.spec.defaults == {"title": "none"}
    assert p.spec.input_with_defaults({"root": "x"}) == {"root": "x", "title": "none"}
    assert p.spec.input_with_defaults(None) == {"title": "none"}
    assert p.spec.input_with_defaults([1]) == [1]


def test_steps_without_shared_data_do_not_wait_for_each_other() -> None:
    @pipeline
    def p() -> None:
        list_files("a")
        list_files("b")
        list_files("c")

    assert [(step["id"], step["needs"]) for step in steps_of(p)] == [
        ("list_files", []),
        ("list_files_2", []),
        ("list_files_3", []),
    ]


def test_steps_can_be_named_and_ordered_without_data() -> None:
    @pipeline
    def p() -> None:
        a = list_files.options(step_id="a")("x")
        b = list_files.options(step_id="b", needs=[a])("y")
        report.options(step_id="final", needs=[b, "a"])([])
        count.options(step_id="each").map(["p", "q"], name="path")

    shown = steps_of(p)
    assert [(step["id"], step["needs"]) for step in shown] == [
        ("a", []),
        ("b", ["a"]),
        ("final", ["a", "b"]),
        ("each", []),
    ]
    assert shown[3]["map"] == {"over": ["p", "q"], "as": "path"}


def test_texts_are_literal_even_when_they_look_like_references() -> None:
    @pipeline
    def p() -> None:
        report([], title="costs ${input.x}")

    assert steps_of(p)[0]["params"]["title"] == "costs $${input.x}"


def test_tasks_may_be_defined_below_the_pipeline_that_uses_them() -> None:
    @pipeline
    def p() -> None:
        later()

    @task
    def later() -> None: ...

    assert steps_of(p)[0]["id"] == "later"


wrongly: Any = count


@pytest.mark.parametrize(
    ("mistake", "why"),
    [
        (lambda x: wrongly(), None),
        (lambda x: wrongly("a", True, 3), "takes 2 positional arguments, but 3 were given"),
        (lambda x: wrongly("a", path="b"), "'path' twice"),
        (lambda x: wrongly(pth="b"), "no parameter 'pth'"),
        (lambda x: wrongly.map([1], name="pth"), "no parameter 'pth'"),
        (lambda x: report([], ctx=None), "no parameter 'ctx'"),
        (lambda x: wrongly({x}), "is a set of results"),
        (lambda x: wrongly("a") if x else None, "neither true nor false"),
        (lambda x: [wrongly(each) for each in x], "cannot be iterated"),
        (lambda x: wrongly(f"in {x}"), "inserted into a text"),
        (lambda x: len(x), "has no length"),
        (lambda x: x[1.5], "can be indexed"),
        (lambda x: wrongly.options(needs=["nope"])("a"), "'nope'"),
        (lambda x: wrongly.options(needs=[5])("a"), "not 5"),
        (
            lambda x: (wrongly.options(step_id="s")("a"), wrongly.options(step_id="s")("b")),
            "already has a step 's'",
        ),
        (lambda x: None, "is neither a task"),
        (lambda x: pipeline(id="undrawn")(lambda: count("abc")).spec, "call it there"),
    ],
)
def test_mistakes_in_the_calls_of_a_pipeline_function_are_reported(mistake: Any, why: str | None) -> None:
    @pipeline(id="drawn")
    def drawn(x: Any) -> None:
        mistake(x)

    if why is None:
        assert steps_of(drawn)[0].get("params") is None
        return
    with pytest.raises(InvalidSpec) as refused:
        _ = drawn.spec
    assert why in refused.value.detail


@pipeline
def inner() -> int:
    return count("abc")


def test_a_pipeline_that_is_called_runs_its_tasks_here_and_now() -> None:
    assert inner() == 3


def test_a_failed_pipeline_function_leaves_tasks_callable() -> None:
    @pipeline
    def broken() -> None:
        raise RuntimeError("oops")

    with pytest.raises(InvalidSpec, match="RuntimeError: oops"):
        _ = broken.spec
    assert count("abc") == 3


@pytest.fixture(autouse=True)
def _forget_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})


def test_a_map_over_what_is_no_list_is_refused() -> None:
    def over_a_number() -> object:
        return count.map(5)  # type: ignore[arg-type]

    with pytest.raises(InvalidSpec, match=r"count\.map takes a list, not 5"):
        _ = pipeline(over_a_number).spec


def test_an_async_pipeline_is_refused_by_name() -> None:
    with pytest.raises(InvalidSpec, match="pipeline 'later' is `async def`") as refused:

        @pipeline
        async def later() -> None: ...

    assert refused.value.hint == "write `def`; tasks may be `async def`"
