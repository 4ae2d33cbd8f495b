"""`with when(…):` draws a choice; edges come from data and `needs` alone, also inside of branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from pipeweave import (
    approval,
    either,
    otherwise,
    pipeline,
    settle,
    sleep,
    sleep_until,
    task,
    transform,
    wait_for_signal,
    when,
)
from pipeweave.errors import InvalidSpec
from pipeweave.spec import Approval, Choice, PipelineSpec, StepSpec


@task
def first(value: Any = None) -> int:
    return 1


@task
def second(value: Any = None) -> int:
    return 2


@task
def named(name: str, size: int) -> None: ...


def drawn(body: Callable[[Any], Any]) -> PipelineSpec:
    @pipeline(id="drawn")
    def made(x: Any) -> Any:
        return body(x)

    return made.spec


def edges(spec: PipelineSpec) -> dict[str, tuple[str, ...]]:
    return {each.id: each.needs for each in spec.steps}


def choice_of(step: StepSpec) -> Choice:
    assert isinstance(step.decides, Choice)
    return step.decides


def test_a_step_follows_the_choice_only_where_no_step_of_its_branch_comes_before_it() -> None:
    def body(x: Any) -> None:
        outer = first(x)
        with when(x > 1):
            a = first(outer)
            second(a)
            second.options(needs=[a], condition=a == 1)("b")
            first("alone")

    spec = drawn(body)
    assert edges(spec) == {
        "first": (),
        "choice": ("first",),
        "first_2": ("choice",),
        "second": ("first_2",),
        "second_2": ("first_2",),
        "first_3": ("choice",),
    }
    [case] = choice_of(spec.by_id["choice"]).cases
    assert case.next == ("first_2", "first_3")


def test_branches_in_branches_follow_the_choices_around_them() -> None:
    def body(x: Any) -> None:
        with when(x == 1):
            a = first(x)
            with when(a == 2):
                b = second(a)
                with when(b == 3):
                    first(b)
            with otherwise():
                second("other")

    spec = drawn(body)
    assert edges(spec) == {
        "choice": (),
        "first": ("choice",),
        "choice_2": ("first",),
        "second": ("choice_2",),
        "choice_3": ("second",),
        "first_2": ("choice_3",),
        "second_2": ("choice_2",),
    }


def test_the_result_of_a_choice_is_a_result_like_others() -> None:
    def body(x: Any) -> Any:
        with when(x == 1, name="one") as chosen:
            first(x)
        with otherwise(x == 2) as same:
            first(x)
        second.options(needs=[chosen])(same)
        return {"taken": chosen}

    spec = drawn(body)
    assert spec.by_id["second"].needs == ("choice",)
    assert spec.by_id["second"].params == {"value": "${steps.choice}"}
    assert spec.output == {"taken": "${steps.choice}"}
    assert [each.name for each in choice_of(spec.by_id["choice"]).cases] == ["one", None]


def test_a_helper_may_draw_a_branch_and_make_a_condition() -> None:
    def is_large(x: Any) -> Any:
        return x["total"] > 100

    def if_large(x: Any) -> None:
        with when(is_large(x)):
            first(x)

    assert choice_of(drawn(if_large).by_id["choice"]).cases[0].condition == "input.x.total > 100"


def test_calculated_values_are_arguments_items_and_outputs() -> None:
    def body(x: Any) -> Any:
        total = x["net"]
        total += x["tax"]
        second.map(either(x["rows"], []), name="value")
        return first(total * 2), total

    spec = drawn(body)
    assert spec.by_id["first"].params == {"value": "${(input.x.net + input.x.tax) * 2}"}
    assert spec.by_id["second"].over == "${input.x.rows ?? []}"
    assert spec.output == ["${steps.first}", "${input.x.net + input.x.tax}"]


def test_a_constant_argument_of_a_task_is_no_template() -> None:
    def body(x: Any) -> None:
        first("${input.x} and more")
        transform("${input.x} and more")

    spec = drawn(body)
    assert spec.by_id["first"].params == {"value": "$${input.x} and more"}
    assert spec.to_json()["steps"][1]["transform"]["output"] == "${input.x} and more"


def read_in_a_branch(x: Any) -> None:
    with when(x > 1):
        named()  # type: ignore[call-arg]  # the run's input fills it


def read_on_a_condition(x: Any) -> None:
    named.options(condition=x > 1)()  # type: ignore[call-arg]


@pytest.mark.parametrize("body", [read_in_a_branch, read_on_a_condition])
def test_an_input_is_not_required_that_no_step_is_certain_to_read(body: Callable[[Any], None]) -> None:
    schema = drawn(body).input_schema
    assert schema is not None
    required = {each["name"]: each["required"] for each in schema["fields"]}
    assert required == {"x": True, "name": False, "size": False}


def test_a_branch_may_ask_how_a_step_of_the_other_one_ended() -> None:
    def body(x: Any) -> None:
        with when(x > 1):
            first(x)
        with otherwise():
            second.options(condition="status.first == 'skipped'")(x)

    assert edges(drawn(body))["second"] == ("choice",)


class Typed(TypedDict, total=False):
    reason: str


class Model(BaseModel):
    reason: str
    amount: int = 3


@pytest.mark.parametrize(
    ("form", "names"), [(Typed, ["reason"]), (Model, ["reason", "amount"]), ({"fields": []}, [])]
)
def test_a_form_is_a_class_or_a_schema(form: Any, names: list[str]) -> None:
    spec = drawn(lambda x: approval("Well?", form=form))
    [step] = spec.to_json()["steps"]
    assert [each["name"] for each in step["approval"]["form"]["fields"]] == names


def test_waits_have_predecessors_and_defaults_that_are_made_of_results() -> None:
    def waits(x: Any) -> None:
        made = first(x)
        paid = wait_for_signal("paid", needs=[made], default={"name": made})
        approval("Well?", needs=[paid], votes=2, default=paid["payload"])

    made, paid, asked = drawn(waits).to_json()["steps"]
    assert (paid["needs"], asked["needs"]) == ([made["id"]], ["signal"])
    assert paid["signal"]["default"] == {"name": f"${{steps.{made['id']}}}"}
    assert (asked["approval"]["needs"], asked["approval"]["default"]) == (2, "${steps.signal.payload}")


def entered_without_with(x: Any) -> None:
    when(x > 1)
    first(x)


def asked_if(x: Any) -> None:
    if when(x > 1):
        first(x)


def otherwise_alone(x: Any) -> None:
    with otherwise():
        first(x)


def step_between(x: Any) -> None:
    with when(x > 1):
        first(x)
    second(x)
    with otherwise():
        first(x)


def after_the_last(x: Any) -> None:
    with when(x > 1):
        first(x)
    with otherwise():
        first(x)
    with otherwise(x > 2):
        first(x)


def settled_twice(x: Any) -> None:
    with settle():
        first(x)
        with settle():
            first(x)


def excluded(x: Any) -> None:
    with when(x > 1):
        a = first(x)
    with otherwise():
        second(a)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (entered_without_with, r"when\(…\) opens no branch"),
        (asked_if, "no truth value"),
        (otherwise_alone, "follows no when"),
        (step_between, "follows no when"),
        (after_the_last, "nothing is left"),
        (settled_twice, "another settle"),
        (excluded, "only one of them runs"),
        (lambda x: when(x is None), "not False, which is known before any run"),
        (lambda x: first.options(condition=True)(x), "not True"),
        (lambda x: first.options(condition="inptu.x > 1")(x), "did you mean 'input'"),
        (lambda x: first.options(condition="input.y > 1")(x), "is not an input of this pipeline"),
        (lambda x: first.options(retry=3)(x), "must be a Retry"),
        (lambda x: first.options(join="some")(x), "use all, all-done, any"),
        (lambda x: first.options(join=3, needs=[second(x)])(x), "waits for 3"),
        (lambda x: sleep("soon"), "is 'soon'"),
        (lambda x: sleep_until("tomorrow"), "must be a time"),
        (lambda x: sleep("1h", step="a"), "no argument 'step'"),
        (lambda x: wait_for_signal(), "must name a signal"),
        (lambda x: wait_for_signal("a", timeout=x), "timeout is a constant"),
        (lambda x: approval("Well?", form=int), "has no fields"),
        (lambda x: approval("Well?", options=["only"]), "two choices"),
        (lambda x: transform({1, x}), "no order"),
    ],
)
def test_what_cannot_be_drawn_is_refused(body: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        drawn(body)


def test_an_argument_that_others_call_otherwise_is_named_as_it_is_called_here() -> None:
    def asked(x: Any) -> None:
        approval("Well?", votes=2, after=[first(x)])

    with pytest.raises(InvalidSpec, match="no argument 'after'") as refused:
        drawn(asked)
    assert refused.value.hint == "write needs="


def test_an_approval_follows_steps_that_it_names_and_counts_votes() -> None:
    def asked(x: Any) -> None:
        approval("Well?", votes=2, needs=[first(x)])

    approving = drawn(asked).by_id["approval"]
    assert approving.needs == ("first",)
    assert isinstance(approving.decides, Approval)
    assert approving.decides.needs == 2


@pytest.mark.parametrize(
    "call", [lambda: when("true"), otherwise, settle, lambda: sleep("1h"), lambda: approval("Well?")]
)
def test_outside_of_a_pipeline_nothing_is_drawn(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidSpec, match="in a @pipeline function alone"):
        call()
    assert either(None, 1) == 1
    assert either(0, 1) == 0
