"""Calling a `@pipeline` while another one is drawn makes a step that runs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pipeweave import loop, pipeline, task, when
from pipeweave.errors import InvalidSpec
from pipeweave.spec import ChildPipeline, LoopStep, PipelineSpec, StepSpec


@task
def work(value: Any = None) -> Any:
    return value


@pipeline
def inner_of_two(order: str, amount: int = 1, *, note: str = "") -> Any:
    return work(order)


@pipeline
def inner_without_parameters() -> Any:
    return work()


def drawn(body: Callable[[Any], Any]) -> PipelineSpec:
    @pipeline(id="drawn")
    def made(x: Any) -> Any:
        return body(x)

    return made.spec


def only_step(body: Callable[[Any], Any]) -> StepSpec:
    [step] = drawn(body).steps
    return step


def refusal(body: Callable[[Any], Any]) -> str:
    with pytest.raises(InvalidSpec) as refused:
        drawn(body)
    return f"{refused.value.detail} ({refused.value.hint})"


def test_a_call_makes_a_step_with_its_arguments_by_name() -> None:
    step = only_step(lambda x: inner_of_two(x, 2, note="n"))
    assert step.decides == ChildPipeline("inner_of_two")
    assert step.id == "inner_of_two"
    assert step.params == {"order": "${input.x}", "amount": 2, "note": "n"}


def test_the_result_of_a_call_is_that_of_its_run() -> None:
    def body(x: Any) -> Any:
        ended = inner_of_two(x)
        return work(ended["part"])

    first, second = drawn(body).steps
    assert second.needs == (first.id,)
    assert second.params == {"value": "${steps.inner_of_two.part}"}


def test_a_pipeline_without_parameters_takes_what_its_tasks_take() -> None:
    assert only_step(lambda x: inner_without_parameters()).params is None
    step = only_step(lambda x: inner_without_parameters(value=x))  # type: ignore[call-arg]
    assert step.params == {"value": "${input.x}"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (lambda x: inner_of_two(x, 1, 2), "takes 2 positional arguments, but 3 were given"),
        (lambda x: inner_of_two(x, order=1), "got the argument 'order' twice"),
        (lambda x: inner_of_two(x, amuont=1), "no parameter 'amuont' (did you mean 'amount'?)"),
        (lambda x: inner_of_two("o", needs=["a"]), "write ….options(needs=…)"),
        (lambda x: inner_of_two.map(x, step_id="a"), "write ….options(step_id=…)"),
        (lambda x: loop(inner_of_two, x, needs=["a"], max_iterations=2), "write ….options(needs=…)"),
        (lambda x: work(x, condition=x == 1), "write ….options(condition=…)"),
        (lambda x: inner_of_two(), "needs the parameter 'order' (give each required parameter)"),
        (lambda x: inner_of_two.map(x, note="n", name="nobody"), "no parameter 'nobody'"),
        (lambda x: inner_of_two.map(x, order="o", amount=1, note=""), "no parameter left to take the items"),
        (lambda x: inner_of_two.map("text"), "inner_of_two.map takes a list, not 'text'"),
        (lambda x: inner_of_two.map(x, name="amount"), "needs the parameter 'order'"),
        (lambda x: inner_of_two.options(retry=3)(x), "retry must be a Retry"),
        (lambda x: inner_of_two.map(x, max_parallel=0), "must be a whole number from 1 to 1,000"),
    ],
)
def test_wrong_arguments_are_refused_when_it_is_drawn(body: Callable[[Any], Any], problem: str) -> None:
    assert problem in refusal(body)


def test_a_map_gives_the_first_free_parameter_the_items() -> None:
    step = only_step(lambda x: inner_of_two.map(x, max_parallel=20, order="o"))
    assert step.decides == ChildPipeline("inner_of_two")
    assert (step.over, step.item_name) == ("${input.x}", "amount")
    assert step.map is not None
    assert step.map.max_parallel == 20
    assert only_step(lambda x: inner_without_parameters.map(x)).item_name is None


def test_a_loop_has_the_rounds_their_end_and_what_the_round_before_gave() -> None:
    def body(x: Any) -> Any:
        return loop(
            inner_of_two,
            loop.last["id"],
            amount=loop.index + 1,
            until=lambda out: out["ok"] & (x > 1),
            max_iterations=3,
            delay="5m",
            collect=True,
        )

    step = only_step(body)
    until = "last.ok && input.x > 1"
    assert step.decides == LoopStep(ChildPipeline("inner_of_two"), 3, until, 300_000, True)
    assert step.params == {"order": "${loop.last.id}", "amount": "${loop.index + 1}"}


def test_the_condition_of_a_loop_may_be_a_text_and_makes_edges_in_a_branch() -> None:
    def body(x: Any) -> None:
        with when(x > 1):
            limit = work(x)
            loop(inner_of_two, "o", until="last.n > steps.work", max_iterations=2)
            work.options(needs=[limit])("behind")

    by_id = drawn(body).by_id
    assert by_id["inner_of_two"].needs == ("work",)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            lambda x: loop(work, max_iterations=2),
            "loop() runs a pipeline or a body, and <task 'work'> is none",
        ),
        (
            lambda x: loop(inner_of_two, x, max_iterations=2, until=lambda out: True),
            "until takes a condition",
        ),
        (lambda x: loop(inner_of_two, max_iterations=2), "needs the parameter 'order'"),
        (lambda x: loop(inner_of_two, x, max_iterations=x), "max_iterations must be a constant"),
        (lambda x: loop(inner_of_two, x, max_iterations=0), "must be a whole number from 1 to 10,000"),
        (lambda x: work(loop.last), "has no value here: only in a loop"),
    ],
)
def test_a_wrong_loop_is_refused_when_it_is_drawn(body: Callable[[Any], Any], problem: str) -> None:
    assert problem in refusal(body)


def test_outside_of_a_pipeline_a_loop_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="@pipeline function alone"):
        loop(inner_of_two, "o", max_iterations=1)


def test_options_are_those_of_the_step() -> None:
    def body(x: Any) -> None:
        before = work(x)
        options = inner_of_two.options(
            step_id="pay", needs=[before], condition=x > 1, join="all-done", continue_on_error=True
        )
        options("o")

    step = drawn(body).by_id["pay"]
    assert (step.needs, step.condition, step.continue_on_error) == (("work",), "input.x > 1", True)


def test_a_pipeline_may_run_itself() -> None:
    @pipeline(id="down")
    def down(n: int) -> Any:
        with when(n > 0):
            down(n - 1)

    assert down.spec.by_id["down"].params == {"n": "${input.n - 1}"}


def test_a_pipeline_knows_those_that_it_calls() -> None:
    @pipeline(id="caller_of_inner")
    def caller_of_inner() -> Any:
        return inner_of_two("o")

    assert caller_of_inner.pipelines == {"inner_of_two": inner_of_two}


def test_two_different_pipelines_of_one_id_are_refused() -> None:
    @pipeline(id="inner_of_two")
    def other(order: str) -> Any:
        return work(order)

    def body(x: Any) -> None:
        other(x)
        inner_of_two(x)

    assert re.search("two different pipelines .* 'inner_of_two'", refusal(body))
