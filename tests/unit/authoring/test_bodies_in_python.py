"""A `@body` in a `@pipeline` function draws the steps of a map or of a loop inside of their step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeweave import body, loop, pipeline, task, transform, when
from pipeweave.errors import InvalidSpec
from pipeweave.spec import Body, LoopStep, PipelineSpec, StepSpec
from pipeweave.testing import run_pipeline


@task
def work(value: Any = None) -> Any:
    return value


@task
def double(number: int) -> int:
    return 2 * number


def drawn(function: Callable[[Any], Any]) -> PipelineSpec:
    @pipeline(id="drawn")
    def made(x: Any) -> Any:
        return function(x)

    return made.spec


def body_of(step: StepSpec) -> Body:
    inner = step.decides.body if isinstance(step.decides, LoopStep) else step.decides
    assert isinstance(inner, Body)
    return inner


def refusal(function: Callable[[Any], Any]) -> str:
    with pytest.raises(InvalidSpec) as refused:
        drawn(function)
    return f"{refused.value.detail} ({refused.value.hint})"


def test_the_steps_of_a_map_see_their_item_and_what_is_around_them() -> None:
    def function(x: Any) -> Any:
        before = work(x)

        @body
        def each(item: Any, more: Any) -> Any:
            return work([item["name"], before, more])

        return each.map(x["list"], more=7, max_parallel=3)

    first, second = drawn(function).steps
    assert (second.id, second.needs, second.map and second.map.max_parallel) == ("each", (first.id,), 3)
    [inner] = body_of(second).steps
    assert inner.params == {"value": ["${item.name}", "${steps.work}", 7]}
    assert inner.id == "work_2"


def test_a_body_without_parameters_is_run_for_each_item_too() -> None:
    @body
    def each() -> Any:
        return work("the same")

    [step] = drawn(lambda x: each.map(x)).steps
    assert len(body_of(step).steps) == 1


def test_a_condition_in_a_body_makes_an_edge_of_the_step_around_it_also_in_a_branch() -> None:
    def function(x: Any) -> None:
        with when(x > 1):
            limit = work(x)

            @body
            def each(item: Any) -> None:
                with when(item > 3), when(item > limit):
                    work(item)

            each.map([1, 2])

    by_id = drawn(function).by_id
    assert by_id["each"].needs == ("work",)


def test_the_rounds_of_a_loop_may_be_a_body() -> None:
    def function(x: Any) -> Any:
        @body
        def count(start: Any) -> Any:
            return double(start + loop.index)

        return loop(count, x, until=lambda last: last > 5, max_iterations=3)

    [step] = drawn(function).steps
    [inner] = body_of(step).steps
    assert (step.id, inner.params) == ("count", {"number": "${input.x + loop.index}"})


def test_options_are_those_of_the_step_around_the_body() -> None:
    @body
    def each(item: Any) -> Any:
        return work(item)

    def function(x: Any) -> None:
        before = work(x)
        chosen = each.options(step_id="all", needs=[before], condition=x != [], continue_on_error=True)
        chosen.map(x)

    step = drawn(function).by_id["all"]
    assert (step.needs, step.condition, step.continue_on_error) == (("work",), "input.x != []", True)


@body
def of_two(item: Any, more: Any) -> Any:
    return work([item, more])


@body
def of_nothing(item: Any) -> None: ...


@body
def of_parts(item: Any) -> Any:
    return {"made": work(item)}


@body
def of_two_ends(item: Any) -> Any:
    first = work(item)
    work("beside it")
    return first


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: of_two.map(x), "body 'of_two' needs the parameter 'more'"),
        (lambda x: of_two.map(x, mroe=1), "no parameter 'mroe' (did you mean 'more'?)"),
        (lambda x: of_two.map("text", more=1), "of_two.map takes a list, not 'text'"),
        (lambda x: of_two.map(x, more=1, max_parallel=0), "must be a whole number from 1 to 1,000"),
        (lambda x: loop(of_two, x, max_iterations=1), "body 'of_two' needs the parameter 'more'"),
        (lambda x: of_nothing.map(x), "the body 'of_nothing' draws no step"),
        (lambda x: of_parts.map(x), "the body of 'of_parts.map' returns {'made'"),
        (lambda x: of_two_ends.map(x), "returns the result of 'work', but ends with 'work_2'"),
    ],
)
def test_what_cannot_be_a_body_is_refused_when_it_is_drawn(
    function: Callable[[Any], Any], problem: str
) -> None:
    assert problem in refusal(function)


@task
def spread(item: Any, max_parallel: int) -> Any:
    return item


def test_a_map_of_a_task_has_no_bound_of_its_own_and_the_refusal_says_the_way_out() -> None:
    said = refusal(lambda x: work.map(x, max_parallel=3))
    assert "only maps of pipelines or bodies take it" in said
    assert "put the call into a function with @body and map that" in said

    @body
    def each(item: Any) -> Any:
        return work(item)

    [step] = drawn(lambda x: each.map(x, max_parallel=3)).steps
    assert step.map is not None
    assert step.map.max_parallel == 3
    # What a task calls so is a parameter of its own.
    [step] = drawn(lambda x: spread.map(x, max_parallel=3)).steps
    assert step.params == {"max_parallel": 3}


def test_a_step_of_a_body_cannot_be_used_outside_of_it() -> None:
    def function(x: Any) -> Any:
        inside: list[Any] = []

        @body
        def each(item: Any) -> None:
            inside.append(work(item))

        each.map(x)
        return work(inside[0])

    assert "in a body" in refusal(function)


def test_a_body_that_is_called_is_drawn_where_it_is_called() -> None:
    def function(x: Any) -> Any:
        return of_two(x, 1)

    [step] = drawn(function).steps
    assert step.params == {"value": ["${input.x}", 1]}


@pipeline
def counted(numbers: list[int], limit: int) -> Any:
    @body
    def one(number: int) -> Any:
        twice = double(number)
        return transform({"twice": twice, "isLarge": twice > limit})

    @body
    def again() -> Any:
        return double(loop.index + 1)

    return {"all": one.map(numbers), "last": loop(again, until=lambda n: n > limit, max_iterations=9)}


def test_a_pipeline_with_bodies_runs_in_a_test_and_as_a_plain_function() -> None:
    expected = {"all": [{"twice": 2, "isLarge": False}, {"twice": 10, "isLarge": True}], "last": 6}
    assert run_pipeline(counted, {"numbers": [1, 5], "limit": 5}).output == expected
    assert counted([1, 5], 5) == expected
    assert of_two.map([1, 2], more=3) == [[1, 3], [2, 3]]
