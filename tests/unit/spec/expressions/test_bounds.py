"""Nothing that a user writes makes an expression take long or much."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from pipeweave.errors import ExpressionFailed
from pipeweave.spec.expressions import BadExpression, parse_condition, parse_expression, parse_template
from pipeweave.spec.expressions.bounds import MAX_WORK

MB = 1_000_000
TOO_MUCH = f"it takes more than {MAX_WORK:,} units of work"
LARGE: dict[str, Any] = {
    "text": "a" * 10 * MB,
    "letters": "é" * MB,
    "control": "\x01" * MB,
    "list": list(range(100_000)),
    "texts": ["x" * 20] * 90_000,
    "nested": [[[1] * 30] * 30] * 200,
    "pairs": [[each] for each in range(90_000)],
    "object": {str(each): each for each in range(90_000)},
    "needle": "a" * 48 + "b" + "a" * 49,
}


@pytest.mark.parametrize(
    ("text", "column", "code", "why"),
    [
        ("1" + " " * 2_000, 2_001, "too_long", "is longer than 2000 characters"),
        ("+".join(["1"] * 201), 401, "too_many_parts", "has more than 400 parts"),
        ("(" * 33 + "1" + ")" * 33, 33, "too_deep", "is nested deeper than 32"),
        ("[" * 33, 33, "too_deep", "is nested deeper than 32"),
        ("input." + "x" * 1_000, 1, "too_long", "a path is longer than 1000 characters"),
    ],
)
def test_a_text_beyond_a_bound_is_refused(text: str, column: int, code: str, why: str) -> None:
    with pytest.raises(BadExpression) as refused:
        parse_expression(text)
    assert (refused.value.column, refused.value.code, refused.value.message) == (column, code, why)


def test_a_text_at_its_bounds_is_taken() -> None:
    assert parse_expression("+".join(["1"] * 200)).evaluate({}) == 200
    assert parse_expression("(" * 31 + "1" + ")" * 31).evaluate({}) == 1
    assert len(parse_expression("input" + "[0]" * 300).references[0].path) == 300
    assert parse_expression("(" + " " * 1_500 + "1)").evaluate({}) == 1
    assert parse_expression("1" + " " * 1_999).evaluate({}) == 1
    assert parse_expression("true ? 1 : " * 60 + "2").evaluate({}) == 1
    assert parse_expression("!" * 399 + "true").evaluate({}) is False


def test_an_expression_in_a_template_has_the_same_bounds() -> None:
    with pytest.raises(BadExpression, match="longer than 2000 characters"):
        parse_template("${1" + " " * 3_000 + "}")
    with pytest.raises(BadExpression, match="longer than 2000 characters"):
        parse_template("${'" + "x" * 3_000 + "'}")
    assert len(parse_template("${1} " * 1_000)) == 2_000


@pytest.mark.parametrize(
    "text",
    [
        "input.list[*] == input.list[*]",
        "[input.list[*], input.list[*]]",
        "input.nested[*][*][*]",
        "input.pairs == input.pairs[*]",
        "input.object == input.object",
        "text(input.texts)",
        "text([input.control])",
        "lower(input.letters)",
        "upper(input.letters)",
        "trim(input.text)",
        "split(input.text, 'a')",
        "join(input.texts, input.letters)",
        "replace(input.text, 'a', '')",
        "replace('aaaa', 'a', input.letters)",
        "input.letters + input.letters",
        "contains(input.text, 'b')",
        "like(input.text, '*b*')",
        "keys(input.object)",
        "0 in input.list && -1 in input.list",
        " || ".join(["contains(input.text, input.needle)"] * 40),
        " || ".join(["starts(input.text, input.text) && false"] * 30),
    ],
)
def test_an_evaluation_ends_when_it_takes_too_much(text: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        parse_expression(text).evaluate({"input": LARGE})
    assert failed.value.detail.endswith(TOO_MUCH)


@pytest.mark.parametrize(
    "text",
    [
        "input.list[*]",
        "input.texts[*]",
        "input.texts == input.pairs",
        "text(input.letters)",
        "split(input.needle + input.needle, 'a')",
        "sum(input.list)",
        "max(input.list)",
        "99999 in input.list",
        "text(input.list) == ''",
        "input.letters + 'x'",
        "lower(input.text)",
        "join(input.texts)",
        "text([input.control])",
        "input.pairs == input.pairs",
    ],
)
def test_an_evaluation_takes_at_most_ten_megabytes(text: str) -> None:
    expression = parse_expression(text)
    tracemalloc.start()
    try:
        expression.evaluate({"input": LARGE})
    except ExpressionFailed:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak <= 10 * MB


def test_the_units_of_work_of_one_evaluation_are_not_those_of_the_next() -> None:
    expression = parse_expression("len(input.list[*])")
    assert [expression.evaluate({"input": LARGE}) for _ in range(3)] == [100_000] * 3


def test_a_value_is_no_longer_than_the_caller_allows() -> None:
    expression = parse_expression("[input.texts, 1]")
    with pytest.raises(ExpressionFailed, match="the value takes more than 32768 characters of JSON"):
        expression.evaluate({"input": LARGE}, max_chars=32_768)
    assert parse_expression("input").evaluate({"input": [1]}, max_chars=32_768) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "[" * 1_900,
        "-" * 1_900 + "1",
        "9" * 1_999,
        "'" + "\\" * 1_998,
        '"' + '\\"' * 999,
        "input" + "." * 1_900,
        "input" + "[0" * 600,
        "input" + '["' * 600,
        "input" + "?." * 900,
        "{" * 1_900,
        "${" * 900,
        "?" * 1_900,
        "a" * 1_999,
        "true ? " * 280,
        "len(" * 400,
        "input.__class__.__mro__[1].__subclasses__()",
        "lambda: 1",
        "__import__('os').system('id')",
        "'%999999999d' % 1 ** 9",
        "9 ** 9 ** 9",
        "matches(input.a, '(a+)+$')",
        "range(10000000)",
        "\x00",
        "\ud800",
        "٣",
        "input.\uff41",
    ],
)
def test_a_hostile_text_is_refused(text: str) -> None:
    for parse in (parse_expression, parse_condition):
        with pytest.raises(BadExpression):
            parse(text)
    with pytest.raises(BadExpression):
        parse_template("${" + text + "}")


def test_numbers_cannot_be_made_to_grow() -> None:
    with pytest.raises(ExpressionFailed, match="beyond 64 bits"):
        parse_expression("*".join(["9999999999"] * 30)).evaluate({})


def test_python_s_own_attributes_are_no_parts() -> None:
    assert parse_expression("has(input.__class__)").evaluate({"input": {"a": 1}}) is False
    assert parse_expression("input.keys ?? 'none'").evaluate({"input": {"a": 1}}) == "none"
