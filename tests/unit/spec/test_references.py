"""`${…}` references: what they name, what they give, what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.errors import ExpressionFailed, InvalidReference, InvalidSpec
from pipeweave.spec.references import (
    compile_value,
    escape,
    referenced_parts,
    referenced_steps,
    resolve,
    show_path,
)

INPUT = {"name": "Ada", "n": 3, "deep": {"list": [1, {"x": True}]}, "odd key}": 7, "none": None}
STEPS = {"list_files": {"paths": ["a", "b"]}, "a.b": 5, "text": "hello"}


def value_of(value: Any, **more: Any) -> Any:
    return resolve(value, input=INPUT, steps=STEPS, **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${input}", INPUT),
        ("${input.n}", 3),
        ("${ input.n }", 3),
        ("${input.deep.list[1].x}", True),
        ('${input["odd key}"]}', 7),
        ("${steps.list_files.paths}", ["a", "b"]),
        ("${steps.list_files.paths[-1]}", "b"),
        ('${steps["a.b"]}', 5),
        ("${item.id}", 9),
        ("${mapIndex}", 4),
        ("${input.none}", None),
    ],
)
def test_a_text_that_is_one_reference_gives_the_value_with_its_type(text: str, expected: Any) -> None:
    assert value_of(text, item={"id": 9}, map_index=4) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear ${input.name}, ${input.n} files", "Dear Ada, 3 files"),
        ("${steps.text}${steps.text}", "hellohello"),
        ("see ${steps.list_files}", 'see {"paths":["a","b"]}'),
        ("is ${input.deep.list[1].x}", "is true"),
        ("$${input.name}", "${input.name}"),
        ("$${a} ${input.n} $${b}", "${a} 3 ${b}"),
        ("$${input.name", "${input.name"),
        ("costs 5$ {really}", "costs 5$ {really}"),
        ("$$${input.n}", "$${input.n}"),
    ],
)
def test_references_inside_a_text_are_put_in_as_text(text: str, expected: str) -> None:
    assert value_of(text) == expected


def test_lists_and_objects_are_resolved_inside_and_left_unchanged_themselves() -> None:
    params = {"a": ["${input.n}", {"b": "${steps.text}"}], "c": 1}
    assert value_of(params) == {"a": [3, {"b": "hello"}], "c": 1}
    assert params["a"] == ["${input.n}", {"b": "${steps.text}"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${input.n + 1}", 4),
        ("${ input.n > 2 ? 'many' : 'few' }", "many"),
        ("${steps.skipped.rows ?? []}", []),
        ("${len(steps.list_files.paths)} files: ${join(steps.list_files.paths, '}')}", "2 files: a}b"),
        (["${input.deep.list[*]}", {"x": "${'a' + text(mapIndex)}"}], [[1, {"x": True}], {"x": "a4"}]),
        ("${variables.limit * 2} $${variables.limit}", "20 ${variables.limit}"),
        ("${now()}", "2027-03-28T01:00:00Z"),
    ],
)
def test_a_reference_may_be_any_expression(value: Any, expected: Any) -> None:
    now = datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert value_of(value, map_index=4, scope={"variables": {"limit": 10}}, now=now) == expected


def test_an_expression_that_does_not_fit_its_values_fails() -> None:
    with pytest.raises(ExpressionFailed, match="cannot add a text and a number"):
        value_of({"x": ["${input.name + 1}"]})


def test_the_paths_in_an_expression_are_references() -> None:
    compiled = compile_value({"x": "${steps.a.rows[*].id == steps.b[1] ?? input.n}", "y": "${mapIndex + 1}"})
    assert [(each.text, each.step, each.path) for each in compiled.references] == [
        ("${steps.a.rows[*].id}", "a", ("rows",)),
        ("${steps.b[1]}", "b", (1,)),
        ("${input.n}", None, ("n",)),
        ("${mapIndex}", None, ()),
    ]


@pytest.mark.parametrize("text", ["${steps.skipped}", "${steps.skipped.rows[0]}"])
def test_a_step_without_output_gives_null(text: str) -> None:
    assert value_of(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${input.missing}", "has no key 'missing'"),
        ("${input.n.x}", "needs an object, not a number"),
        ("${input.deep[0]}", "needs a list, not an object"),
        ("${steps.list_files.paths[2]}", "has 2 entries"),
        ("${input.none.x}", "not null"),
    ],
)
def test_a_path_that_does_not_exist_says_why(text: str, why: str) -> None:
    with pytest.raises(InvalidReference, match="does not exist") as refused:
        value_of(text)
    assert why in refused.value.detail


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${inputs.x}", "starts with 'inputs'"),
        ("${steps}", "names no step"),
        ("${steps[0]}", "names no step"),
        ("${mapIndex.x}", "has no parts"),
        ("${input.x", "not closed"),
        ("${}", "is not a reference"),
        ("${input.}", "is not a reference"),
        ("${input..x}", "is not a reference"),
        ("${input[x]}", "is not a reference"),
        ("${input.x + }", "is not a reference or an expression: unexpected '}' (column 13)"),
        ("${lenn(input.x)}", "did you mean 'len'?"),
        ('${input["\\q"]}', "not a JSON string"),
        ("${input." + "x" * 2000 + "}", "longer than 1000"),
    ],
)
def test_a_reference_that_cannot_be_read_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        compile_value({"rows": [0, text]}, "steps[2].params")
    assert refused.value.errors[0].field == "steps[2].params.rows[1]"
    assert why in refused.value.errors[0].message


def test_too_deep_nesting_is_refused_without_recursion() -> None:
    value: Any = "${input.x}"
    for _ in range(5_000):
        value = [value]
    with pytest.raises(InvalidSpec, match="nested deeper"):
        compile_value(value)


def test_steps_named_finds_every_step_once() -> None:
    assert referenced_steps(["${steps.a}", {"x": "to ${steps.b.c} and ${steps.a[0]}"}, "$${steps.c}"]) == {
        "a",
        "b",
    }


def test_a_compiled_constant_is_given_back_as_it_is() -> None:
    constant = {"a": [1, "x"]}
    assert compile_value(constant).resolve(input={}, steps={}) is constant
    assert compile_value(["$${x}"]).resolve(input={}, steps={}) == ["${x}"]


@given(st.text(alphabet='${}ab.\\"[]', max_size=30))
def test_an_escaped_text_resolves_to_itself(text: str) -> None:
    assert resolve(escape(text), input={}, steps={}) == text


@given(st.lists(st.text(max_size=8) | st.integers(-3, 3), max_size=4))
def test_a_shown_path_is_read_back_as_it_was(path: list[str | int]) -> None:
    (read,) = compile_value(show_path("input", path)).references
    assert read.path == tuple(path)


@given(st.text(alphabet='${}input.steps[]" 09a', max_size=40))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    try:
        compile_value(text)
    except InvalidSpec as refused:
        assert refused.errors


def test_a_text_that_grows_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(InvalidReference, match="becomes longer"):
        resolve("${input} " * 5_000, input="x" * 1_000, steps={})


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("${input} and ${item}", {}),
        ("${steps.m}", {"m": None}),
        ("${steps.m[0].rows}", {"m": {0}}),
        (["${steps.m[0]}", "${steps.m[-1]}", "${steps.n.rows[2]}"], {"m": {0, -1}, "n": None}),
        (["${steps.m[0]}", "${steps.m}", "${steps.m[1]}"], {"m": None}),
        ("${steps.m[0].n + steps.m[-1].n}", {"m": {0, -1}}),
        ("${len(steps.m) + steps.m[0]}", {"m": None}),
        ("${steps.m[*].n}", {"m": None}),
    ],
)
def test_the_places_that_references_need_of_a_list_are_known(
    value: object, parts: dict[str, set[int] | None]
) -> None:
    assert referenced_parts(compile_value(value).references) == parts
