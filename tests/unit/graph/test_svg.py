"""The drawing of a graph as SVG."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree

import pytest
from support.engine_steps import choice
from support.graphs import WORKFLOWS, plan_of, plan_of_workflow
from support.pages import ROOT

from pipeweave.orchestrator.domain.plan import Plan, compile_plan
from pipeweave.orchestrator.graph import ICONS, DrawingView, layout, shape_of, svg
from pipeweave.orchestrator.graph.svg import Statuses
from pipeweave.spec import Case, ChildPipeline, LoopStep, MapSpec, PipelineSpec, StepSpec, engine_task
from pipeweave.spec.wait_steps import Sleep

NAME = "{http://www.w3.org/2000/svg}"


def drawn(
    plan: Plan,
    view: DrawingView = DrawingView.ALL,
    opened: tuple[str, ...] = (),
    statuses: Statuses | None = None,
    left: Mapping[int, str] | None = None,
) -> ElementTree.Element:
    shape = shape_of(plan, view, opened)
    text = svg(
        shape,
        layout(shape),
        title="a <drawing>",
        statuses=statuses,
        href=lambda box: f"?step={box.key}&a",
        left=left,
    )
    assert "style=" not in text
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{NAME}text")]


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
def test_real_workflows_are_drawn_with_every_box_as_a_link(name: str) -> None:
    plan = plan_of_workflow(name)
    links = [each.get("href") for each in drawn(plan).iter(f"{NAME}a")]
    assert links == [f"?step={step.id}&a" for step in plan.steps]


def test_a_status_is_a_shape_and_a_colour() -> None:
    plan = plan_of({"a": [], "b": ["a"], "c": ["b"]})
    root = drawn(plan, statuses={1: "completed", 2: "failed"})
    marks = [
        (each.text, each.get("class")) for each in root.iter(f"{NAME}text") if "mark" in each.get("class", "")
    ]
    assert marks == [
        ("●", "graph-mark s-completed"),
        ("✗", "graph-mark s-failed"),
        ("○", "graph-mark s-pending"),
    ]


def test_without_a_run_there_are_no_marks() -> None:
    assert texts(drawn(plan_of({"a": [], "b": ["a"]}))) == ["a", "a", "b", "b"]


def test_a_class_counts_its_members_and_shows_the_worst_status() -> None:
    steps = {f"b{at}": ["a"] for at in range(4)}
    plan = plan_of({"a": [], **steps}, dict.fromkeys(steps, "b"))
    statuses = {1: "completed", 2: "completed", 3: "running", 4: "timeout"}
    root = drawn(plan, DrawingView.PATTERN, statuses=statuses)
    assert texts(root) == ["1:n", "●", "a", "a", "✗", "b \N{MULTIPLICATION SIGN}4", "b", "2 / 4"]
    parts = [each.get("class") for each in root.iter(f"{NAME}rect") if each.get("height") == "3"]
    assert parts == ["f-completed", "f-pending", "f-running", "f-timeout"]


def test_an_open_class_shows_at_most_400_members_and_counts_the_rest() -> None:
    steps = {f"b{at}": ["a"] for at in range(401)}
    plan = plan_of({"a": [], **steps}, dict.fromkeys(steps, "b"))
    found = texts(drawn(plan, DrawingView.PATTERN, ("1/b",)))
    assert "b399" in found
    assert "b400" not in found
    assert "and 1 more" in found


def test_a_long_name_is_cut() -> None:
    name = "a" * 200
    assert max(map(len, texts(drawn(plan_of({name: []}))))) < 30


STEPS = (
    StepSpec("start", "noop"),
    choice("size", Case("input.big", ("large",)), Case(None, ("small",)), needs=("start",)),
    StepSpec("large", "noop", ("size",)),
    StepSpec("small", "noop", ("size",)),
    StepSpec("night", engine_task(Sleep(ms=5)), ("start",), decides=Sleep(ms=5)),
)
ENGINE = compile_plan(PipelineSpec("p", STEPS))


def test_a_choice_is_a_rhombus_and_what_the_engine_decides_has_a_small_mark() -> None:
    root = drawn(ENGINE)
    boxes = [each.get("class") for each in root.iter(f"{NAME}path") if "graph-box" in each.get("class", "")]
    icons = [each.get("d") for each in root.iter(f"{NAME}path") if each.get("class") == "graph-icon"]
    assert (boxes, icons) == (["graph-box"], [ICONS["sleep"]])
    assert "pipeweave" not in " ".join(texts(root))


def test_a_branch_that_was_not_taken_is_dashed_and_pale() -> None:
    statuses = {1: "completed", 2: "completed", 3: "running", 4: "skipped", 5: "waiting"}
    root = drawn(ENGINE, statuses=statuses)
    [links] = [each for each in root.iter(f"{NAME}g") if each.get("class") == "graph-links"]
    assert [each.get("stroke-opacity") for each in links if each.get("stroke-dasharray")] == ["0.35"]
    names = {each.text: each.get("class") for each in root.iter(f"{NAME}text")}
    assert (names["small"], names["large"]) == ("graph-muted", "graph-ink")


def test_a_wait_shows_how_much_time_is_left() -> None:
    shape = shape_of(ENGINE, DrawingView.ALL)
    text = svg(shape, layout(shape), title="t", statuses={5: "waiting"}, left={5: "3 h left"})
    assert "3 h left" in text and "graph-icon s-waiting" in text


def test_the_canvas_draws_the_same_small_marks() -> None:
    script = (ROOT / "api/ui/static/js/graph/looks.js").read_text()
    assert all(f'{word}: "{path}"' in script for word, path in ICONS.items())


CHILD = ChildPipeline("charge-card")
LOOP = LoopStep(ChildPipeline("ask"), 5, "last.ok")
INSIDE = compile_plan(
    PipelineSpec(
        "p",
        (
            choice("size", Case("input.big", ("call",), "large"), Case(None, ("again",))),
            StepSpec("call", engine_task(CHILD), ("size",), decides=CHILD),
            StepSpec("again", engine_task(LOOP), ("size",), decides=LOOP),
            StepSpec("each", engine_task(CHILD), decides=CHILD, map=MapSpec([1])),
        ),
    )
)


def test_a_step_that_runs_a_pipeline_has_two_frames_and_the_name_of_that_pipeline() -> None:
    root = drawn(INSIDE, left={3: "round 3 of at most 5"}, statuses={3: "waiting"})
    frames = [each for each in root.iter(f"{NAME}rect") if (each.get("class") or "").startswith("graph-box")]
    assert len(frames) == 6
    found = texts(root)
    assert "charge-card" in found
    assert "map of charge-card" in found
    assert "round 3 of at most 5" in found


def test_the_links_of_a_choice_have_the_names_of_its_cases() -> None:
    found = texts(drawn(INSIDE))
    assert {"large", "else"} <= set(found)
    assert "input.big" in texts(drawn(ENGINE))
