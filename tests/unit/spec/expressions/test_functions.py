"""What each function of the expressions gives, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.errors import ExpressionFailed
from pipeweave.spec.expressions import parse_expression
from pipeweave.spec.expressions.functions import FUNCTIONS

SCOPE: dict[str, Any] = {
    "input": {
        "object": {"b": 1, "a": [1, "x", None, True]},
        "rows": [{"n": 3}, {"n": 1.5}, {"n": None}],
        "none": None,
    }
}
NOW = datetime(2027, 3, 28, 1, 30, 0, 250_000, tzinfo=UTC)

EXAMPLES: list[tuple[str, Any]] = [
    ("len('äbc')", 3),
    ("len([1, 2])", 2),
    ("len(input.object)", 2),
    ("has(input.object.b)", True),
    ("number('12')", 12),
    ("number('-1.5e1')", -15.0),
    ("number(7)", 7),
    ("text('a')", "a"),
    ("text(1.5)", "1.5"),
    ("text(true)", "true"),
    ("text(input.object)", '{"b":1,"a":[1,"x",null,true]}'),
    ("text(now())", "2027-03-28T01:30:00.250000Z"),
    ("text(duration('90m'))", "5400"),
    ("lower('ÄB')", "äb"),
    ("upper('äb')", "ÄB"),
    ("trim(' a b\\n')", "a b"),
    ("split('a, b', ', ')", ["a", "b"]),
    ("split('', ',')", [""]),
    ("join(['a', 'b'])", "ab"),
    ("join(['a', 1, null, true], '-')", "a-1-true"),
    ("replace('a-b-c', '-', '+')", "a+b+c"),
    ("starts('abc', 'ab')", True),
    ("ends('abc', 'bc')", True),
    ("ends('abc', 'ab')", False),
    ("contains('abc', 'b')", True),
    ("contains([1, 2], 2.0)", True),
    ("contains(input.object, 'a')", True),
    ("like('report-2027.csv', 'report-*.csv')", True),
    ("like('report.csv', 'report-*.csv')", False),
    ("like('abc', 'a?c')", True),
    ("like('abbc', 'a?c')", False),
    ("like('', '*')", True),
    ("like('aXbXc', 'a*?c')", True),
    ("like('ab', 'ab*ab')", False),
    ("sum([1, 2.5])", 3.5),
    ("sum([])", 0),
    ("sum(input.rows[*].n)", 4.5),
    ("min(3, 1, 2)", 1),
    ("min(input.rows[*].n)", 1.5),
    ("max(['a', 'b'])", "b"),
    ("max(null, 2)", 2),
    ("max([])", None),
    ("max(now(), time('2027-01-01T00:00:00Z')) == now()", True),
    ("any([false, null, true])", True),
    ("any([])", False),
    ("all([true, true])", True),
    ("all([true, null])", False),
    ("all([])", True),
    ("round(2.5)", 3),
    ("round(-2.5)", -3),
    ("round(2.675, 2)", 2.68),
    ("round(7)", 7),
    ("round(7, 2)", 7),
    ("floor(-1.5)", -2),
    ("ceil(1.2)", 2),
    ("abs(-3)", 3),
    ("keys(input.object)", ["a", "b"]),
    ("first([1, 2])", 1),
    ("first([])", None),
    ("last([1, 2])", 2),
    ("last([])", None),
    ("time('2027-03-28T02:30:00+01:00')", "2027-03-28T01:30:00Z"),
    ("time('2027-03-28t01:30:00.5z')", "2027-03-28T01:30:00.500000Z"),
    ("time(now()) == now()", True),
    ("duration('2h')", 7200),
    ("duration(1.5)", 1.5),
    ("duration(duration('2h'))", 7200),
    ("now()", "2027-03-28T01:30:00.250000Z"),
]


def value_of(text: str) -> Any:
    return parse_expression(text).evaluate(SCOPE, now=NOW)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_a_function_gives(text: str, expected: Any) -> None:
    result = value_of(text)
    assert result == expected
    assert type(result) is type(expected)


def test_every_function_has_an_example() -> None:
    assert not [name for name in FUNCTIONS if not any(f"{name}(" in text for text, _ in EXAMPLES)]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"has", "now"}))
def test_a_function_of_null_is_null(name: str) -> None:
    arguments = ", ".join(["input.none"] * FUNCTIONS[name].least)
    assert value_of(f"{name}({arguments})") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("len(1)", "len needs a text, a list or an object, not a number"),
        ("number('1 ')", "number cannot read '1 '"),
        ("number('0x10')", "number cannot read '0x10'"),
        ("number('9223372036854775808')", "the number is beyond 64 bits"),
        ("number(true)", "number needs a text, not a boolean"),
        ("lower(1)", "lower needs a text, not a number"),
        ("split('a', '')", "split needs a text that is not empty"),
        ("replace('a', '', 'b')", "replace needs a text that is not empty"),
        ("join([[]])", "join cannot join a list"),
        ("join('a')", "join needs a list, not a text"),
        ("starts(['a'], 'a')", "starts needs a text, not a list"),
        ("like('a', 1)", "like needs a text, not a number"),
        ("sum(['a'])", "sum needs a number, not a text"),
        ("sum([true])", "sum needs a number, not a boolean"),
        ("sum([9223372036854775807, 1])", "the number is beyond 64 bits"),
        ("min(1, 'a')", "min cannot compare a text with a number"),
        ("min(1)", "min needs a list, not a number"),
        ("max([true])", "max cannot compare a boolean with a boolean"),
        ("any([1])", "a number is neither true nor false"),
        ("all(['a'])", "a text is neither true nor false"),
        ("round('1')", "round needs a number, not a text"),
        ("round(1, 16)", "round takes 0 to 15 digits"),
        ("round(1, 1.5)", "round takes 0 to 15 digits"),
        ("floor(1e300)", "the number is beyond 64 bits"),
        ("keys([])", "keys needs an object, not a list"),
        ("first('abc')", "first needs a list, not a text"),
        ("time('2027-03-28')", "time cannot read '2027-03-28'"),
        ("time('2027-03-28T01:30:00')", "time cannot read '2027-03-28T01:30:00'"),
        ("time('2027-13-28T01:30:00Z')", "time cannot read '2027-13-28T01:30:00Z'"),
        ("time('0001-01-01T00:00:00+23:00')", "time cannot read '0001-01-01T00:00:00+23:00'"),
        ("time(1)", "time needs a text, not a number"),
        ("duration('2 hours')", "duration cannot read '2 hours'"),
        ("duration(-1)", "duration cannot read a number"),
        ("duration('367d')", "duration cannot read '367d'"),
    ],
)
def test_a_function_says_what_it_needs(text: str, why: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        value_of(text)
    assert failed.value.detail == f"{text!r} cannot be evaluated: {why}"


def plain_like(text: str, pattern: str) -> bool:
    """The obvious definition, which takes exponential time."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(plain_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and plain_like(text[1:], pattern[1:])


@given(st.text("ab", max_size=8), st.text("ab?*", max_size=8))
def test_like_is_what_its_signs_say(text: str, pattern: str) -> None:
    scope = {"input": {"text": text, "pattern": pattern}}
    assert parse_expression("like(input.text, input.pattern)").evaluate(scope) is plain_like(text, pattern)
