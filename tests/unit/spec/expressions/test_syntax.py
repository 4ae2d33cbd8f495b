"""How expressions are read: what binds stronger, what paths look like, what is refused and where."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.spec.expressions import (
    BadExpression,
    Expression,
    Path,
    parse_condition,
    parse_expression,
    parse_template,
)

SCOPE: dict[str, Any] = {
    "input": {
        "n": 3,
        "t": "text",
        "list": [1, 2, {"id": 9}],
        "a-b": 1,
        "any key": 2,
        "k~:@": 4,
        "0": 5,
        "none": None,
    },
    "steps": {"list-files": {"paths": ["a", "b"]}, "a.b": 5},
}

BRACKETS = 'write [0], [-1], ["any key"] or [*]'
NOT_COMPUTED = "a place or key is not computed: map over the list, or let a task pick the part"
NOT_SLICED = "a list is not cut into slices: let a task do that"


def value_of(text: str) -> Any:
    return parse_expression(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("8 - 2 - 1", "(8 - 2) - 1"),
        ("8 / 2 / 2", "(8 / 2) / 2"),
        ("2 * null ?? 3", "2 * (null ?? 3)"),
        ("null ?? null ?? 4", "(null ?? null) ?? 4"),
        ("-input.n + 1", "(-input.n) + 1"),
        ("-null ?? 4", "(-null) ?? 4"),
        ("1 + 1 == 2", "(1 + 1) == 2"),
        ("1 == 1 && 2 == 2", "(1 == 1) && (2 == 2)"),
        ("!1 == 2", "!(1 == 2)"),
        ("not true || true", "(not true) || true"),
        ("!!true", "!(!true)"),
        ("true || false && false", "true || (false && false)"),
        ("false and false or true", "(false && false) || true"),
        ("true || false ? 1 : 2", "(true || false) ? 1 : 2"),
        ("false ? 1 : true ? 2 : 3", "false ? 1 : (true ? 2 : 3)"),
        ("true ? false ? 1 : 2 : 3", "true ? (false ? 1 : 2) : 3"),
        ("3 in [1, 2] || true", "(3 in [1, 2]) || true"),
        ("1+2", "1 + 2"),
    ],
)
def test_stronger_operators_are_read_first(text: str, same: str) -> None:
    assert value_of(text) == value_of(same)
    assert value_of(text) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("1.5e1", 15.0),
        ("'it\\'s \"so\"'", 'it\'s "so"'),
        ('"it\'s \\"so\\" \\u00e9"', 'it\'s "so" é'),
        ("'a\\\\'", "a\\"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("[]", []),
        ("[1, 'a', [null]]", [1, "a", [None]]),
        ("  ( ( 1 ) )\n", 1),
    ],
)
def test_a_literal_is_the_value_that_it_says(text: str, expected: Any) -> None:
    assert value_of(text) == expected
    assert parse_expression(text).is_constant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.n", 3),
        ("input.list[0]", 1),
        ("input.list[-1].id", 9),
        ("input.a-b", 1),
        ("input.k~:@", 4),
        ("input.0", 5),
        ('input["any key"]', 2),
        ("input['any key']", 2),
        ("input.n - 1", 2),
        ("true ? input.n : 2", 3),
        ("steps.list-files.paths[*]", ["a", "b"]),
        ('steps["a.b"]', 5),
        ("input?.n", 3),
        ("input.list?.[0]", 1),
        ("first(input.list)", 1),
        ("last(input.list).id", 9),
        ("(input.list)[1]", 2),
        ("split('a,b', ',')[1]", "b"),
    ],
)
def test_a_path_leads_to_a_value(text: str, expected: Any) -> None:
    assert value_of(text) == expected


def test_the_paths_of_an_expression_are_known() -> None:
    expression = parse_expression("steps.a.rows[*].id == input.x ?? steps['b'][0]?.y")
    assert [(each.root, each.step, each.path) for each in expression.references] == [
        ("steps", "a", ("rows",)),
        ("input", None, ("x",)),
        ("steps", "b", (0, "y")),
    ]
    assert [each.text for each in expression.references] == [
        "steps.a.rows[*].id",
        "input.x",
        "steps['b'][0]?.y",
    ]
    assert [each.column for each in expression.references] == [1, 23, 34]
    assert not expression.is_constant
    assert not expression.uses_now


def test_an_expression_that_asks_for_the_time_is_no_constant() -> None:
    expression = parse_expression("now() > time('2026-01-01T00:00:00Z')")
    assert (expression.uses_now, expression.is_constant, expression.references) == (True, False, ())


@pytest.mark.parametrize(
    "text",
    [
        "${input.n} == 3",
        "input.n == 3",
        "${input.n == 3}",
        "${ ${input.n} } == 3",
        "${input.list}[2].id == 9",
    ],
)
def test_in_a_condition_a_reference_is_what_stands_in_it(text: str) -> None:
    assert parse_condition(text).is_true(SCOPE)


def test_an_expression_is_parsed_once() -> None:
    assert parse_expression("input.n + 1") is parse_expression("input.n + 1")
    assert parse_condition("input.n") != parse_expression("input.n")


@pytest.mark.parametrize(
    ("text", "column", "code", "why"),
    [
        ("", 1, "unexpected_end", "the expression ends too early"),
        ("1 +", 4, "unexpected_end", "the expression ends too early"),
        ("(1", 3, "unexpected_end", "the expression ends too early"),
        ("1 2", 3, "syntax", "unexpected '2'"),
        ("1 = 2", 3, "syntax", "unexpected '=': write == to compare"),
        ("true & false", 6, "syntax", "unexpected '&': write &&"),
        ("true | false", 6, "syntax", "unexpected '|': write ||"),
        ("1 < 2 < 3", 7, "chained", "comparisons are not chained: write a < b && b < c"),
        ("1 == !true", 6, "syntax", "put ( ) around ! and what follows"),
        ("012", 1, "syntax", "a number is not one of JSON: write it as 12, 1.5 or 1e3"),
        ("1a", 1, "syntax", "a number is not one of JSON: write it as 12, 1.5 or 1e3"),
        ("9223372036854775808", 1, "bad_number", "a number is larger than 64 bits hold"),
        ("1e999", 1, "bad_number", "a number is larger than 64 bits hold"),
        ("'a", 1, "unclosed_text", "a text is not closed"),
        ("'\\q'", 1, "bad_text", "is not a JSON string: escape \\ as \\\\, a line end as \\n"),
        ("'\\ud800'", 1, "bad_text", "is not a JSON string: escape \\ as \\\\, a line end as \\n"),
        ("'\\u0000'", 1, "bad_text", "holds the character U+0000, which no text may hold"),
        ("inputs.x", 1, "unknown_root", "a path starts with 'inputs': did you mean 'input'?"),
        ("lenn(input.x)", 1, "unknown_function", "'lenn' is no function: did you mean 'len'?"),
        ("len()", 1, "wrong_arguments", "len has 0 arguments: write len(value)"),
        ("split('a')", 1, "wrong_arguments", "split has 1 arguments: write split(text, separator)"),
        ("has(1)", 1, "wrong_arguments", "has takes a path: write has(input.name)"),
        ("input.", 6, "bad_path", 'a name must follow the dot; write ["any key"] for other names'),
        ("input..x", 6, "bad_path", 'a name must follow the dot; write ["any key"] for other names'),
        ("input[x]", 6, "bad_path", f"{BRACKETS}; {NOT_COMPUTED}"),
        ("steps.a.list[input.n]", 13, "bad_path", f"{BRACKETS}; {NOT_COMPUTED}"),
        ("steps.a.list[loop.index + 1].id", 13, "bad_path", f"{BRACKETS}; {NOT_COMPUTED}"),
        ("input.list[input.a ? 1 : 2]", 11, "bad_path", f"{BRACKETS}; {NOT_COMPUTED}"),
        ("input.list[", 11, "bad_path", f"{BRACKETS}; {NOT_COMPUTED}"),
        ("input.list[1:3]", 11, "bad_path", f"{BRACKETS}; {NOT_SLICED}"),
        ("input.list[:-1]", 11, "bad_path", f"{BRACKETS}; {NOT_SLICED}"),
        ("input.list[input.n:]", 11, "bad_path", f"{BRACKETS}; {NOT_SLICED}"),
        ("steps", 1, "no_step", "names no step: write steps.<step id>"),
        ("steps[0]", 1, "no_step", "names no step: write steps.<step id>"),
        ("status[*]", 1, "no_step", "names no step: write status.<step id>"),
        ("mapIndex.x", 1, "bad_path", "mapIndex is a number and has no parts"),
        ("[1, 2", 6, "unexpected_end", "the expression ends too early"),
        ("[1,]", 4, "syntax", "unexpected ']'"),
        ("true ? 1", 9, "unexpected_end", "the expression ends too early"),
        ("true ? 1 , 2", 10, "unclosed", "expected ':', not ','"),
        ("1 }", 3, "syntax", "unexpected '}'"),
        ("${input.n}", 1, "syntax", "a ${…} cannot stand in another one: use ( )"),
        ("input.x ?? or", 12, "syntax", "unexpected 'or'"),
        ("__import__('os')", 1, "unknown_function", None),
        ("input.__class__.__mro__()", 24, "syntax", "unexpected '('"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_column(
    text: str, column: int, code: str, why: str | None
) -> None:
    with pytest.raises(BadExpression) as refused:
        parse_expression(text)
    assert (refused.value.column, refused.value.code) == (column, code)
    assert why is None or refused.value.message == why


def test_a_refusal_names_the_nearest_right_name() -> None:
    with pytest.raises(BadExpression) as refused:
        parse_expression("1 + rund(input.x)")
    assert (refused.value.near, str(refused.value)) == (
        "round",
        "column 5: 'rund' is no function: did you mean 'round'?",
    )


def test_a_template_has_literal_parts_and_expressions() -> None:
    parts = parse_template("Dear ${ input.t }, $${x} ${input.n + 1}")
    assert [part.text if isinstance(part, Expression) else part for part in parts] == [
        "Dear ",
        "input.t",
        ", ${x} ",
        "input.n + 1",
    ]
    assert parse_template("plain") == ("plain",)
    assert parse_template("") == ("",)


def test_a_template_that_is_one_expression_keeps_the_type() -> None:
    (part,) = parse_template("${input.list[*]}")
    assert isinstance(part, Expression)
    assert part.evaluate(SCOPE) == [1, 2, {"id": 9}]


@pytest.mark.parametrize("text", ["${'}'}", '${"a}b"}', "${'\\'}'}"])
def test_a_closing_brace_in_a_text_does_not_close_a_template(text: str) -> None:
    (part,) = parse_template(text)
    assert isinstance(part, Expression)
    assert "}" in part.evaluate({})


def test_the_column_in_a_template_counts_from_the_beginning_of_the_text() -> None:
    with pytest.raises(BadExpression) as refused:
        parse_template("Dear ${input.name}, ${inputs.n}")
    assert refused.value.column == 23


def test_a_path_is_a_value_of_its_own() -> None:
    (path,) = parse_expression("input.a").references
    assert isinstance(path, Path)
    assert (path.text, path.root, path.path) == ("input.a", "input", ("a",))
