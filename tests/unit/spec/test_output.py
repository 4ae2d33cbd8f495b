"""What the output of a run is."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidSpec
from pipeweave.spec import named_in, output_template, parse_spec, run_output

CHAIN = [{"task": "a"}, {"task": "b"}]
FORK = [{"task": "a"}, {"parallel": [{"task": "b"}, {"task": "c"}]}]


def made(document: dict[str, Any], ends: list[str], **steps: Any) -> Any:
    template = output_template(parse_spec({"id": "p", **document}), ends)
    return run_output(template, input={"day": "monday"}, steps=steps)


def test_without_an_output_it_is_that_of_the_one_end_step() -> None:
    assert made({"steps": CHAIN}, ["b"], a=1, b={"rows": 2}) == {"rows": 2}
    assert made({"steps": CHAIN}, ["b"], a=1) is None


def test_the_outputs_of_several_end_steps_are_an_object_by_step() -> None:
    assert made({"steps": FORK}, ["b", "c"], a=1, b=2) == {"b": 2, "c": None}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("${steps.a}", {"rows": [1, 2]}),
        ({"first": "${steps.a.rows[0]}", "day": "${input.day}"}, {"first": 1, "day": "monday"}),
        (["${steps.b}", "on ${input.day}", 5, None], ["b", "on monday", 5, None]),
        ("${steps.a.nothing}", None),
        ({"x": "${steps.a.rows[9]}", "y": "${input.nothing}"}, {"x": None, "y": None}),
        ("${len(steps.a.rows) + 1}", 3),
        ("${steps.a + 1}", None),
        (0, 0),
        (False, False),
    ],
)
def test_an_output_is_what_it_refers_to(output: Any, expected: Any) -> None:
    assert made({"steps": CHAIN, "output": output}, ["b"], a={"rows": [1, 2]}, b="b") == expected


def test_what_refers_to_a_value_that_is_left_out_is_null() -> None:
    template = {"large": "${steps.a.rows}", "text": "a: ${steps.a}", "small": "${steps.b}", "day": "${input}"}
    found = run_output(template, input=None, steps={"b": 2}, left_out={"a"}, has_input=False)
    assert found == {"large": None, "text": None, "small": 2, "day": None}
    assert named_in(template) == ({"a": 2, "b": 1}, 1)


def test_an_output_that_says_nothing_new_is_left_out_of_the_spec() -> None:
    plain = parse_spec({"id": "p", "steps": CHAIN})
    assert parse_spec({"id": "p", "steps": CHAIN, "output": "${steps.b}"}) == plain
    assert parse_spec({"id": "p", "steps": CHAIN, "output": None}) == plain
    assert parse_spec({"id": "p", "steps": CHAIN, "output": "${steps.a}"}).spec_hash != plain.spec_hash


@pytest.mark.parametrize(
    ("output", "field", "why"),
    [
        ("${steps.bb}", "output", "did you mean 'b'?"),
        ({"x": ["${item}"]}, "output.x[0]", "has no value in the output"),
        ("${steps.", "output", "not closed"),
        ([[[["x" for _ in range(2)]]]], None, None),
    ],
)
def test_a_wrong_output_is_refused_with_its_field(output: Any, field: str | None, why: str | None) -> None:
    document = {"id": "p", "steps": CHAIN, "output": output}
    if field is None:
        assert parse_spec(document).output == output
        return
    with pytest.raises(InvalidSpec, match=why) as refused:
        parse_spec(document)
    assert refused.value.errors[0].field == field


def test_an_output_nested_too_deep_is_refused() -> None:
    output: Any = "x"
    for _ in range(33):
        output = [output]
    with pytest.raises(InvalidSpec, match="deeper than 32"):
        parse_spec({"id": "p", "steps": CHAIN, "output": output})
