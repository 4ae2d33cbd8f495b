"""Comparing placeholders and calculating with them writes expressions of the same meaning."""

from __future__ import annotations

import operator
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import either
from pipeweave.authoring import formulas
from pipeweave.authoring.placeholder import Placeholder, expression_of, operand
from pipeweave.spec.expressions import parse_condition, parse_expression, parse_template


class Colour(Enum):
    RED = "red"


def named(name: str) -> Any:
    return Placeholder(formulas.path("input", (name,)))


A, B, C = named("a"), named("b"), named("c")


@pytest.mark.parametrize(
    ("drawn", "text"),
    [
        (A == 1, "input.a == 1"),
        (A != None, "input.a != null"),  # noqa: E711
        (A == True, "input.a == true"),  # noqa: E712
        (operator.lt(1000, A["total"]), "input.a.total > 1000"),
        (A["any key"][-1] <= 1.5, 'input.a["any key"][-1] <= 1.5'),
        ((A > 1) & (B < 2) | ~(C == "x"), "input.a > 1 && input.b < 2 || !(input.c == 'x')"),
        (((A > 1) | (B > 1)) & C, "(input.a > 1 || input.b > 1) && input.c"),
        (False | A, "false || input.a"),
        (True & A, "true && input.a"),
        (A - (B - C), "input.a - (input.b - input.c)"),
        (A - B - C, "input.a - input.b - input.c"),
        ((A + B) * 2 / C % 7, "(input.a + input.b) * 2 / input.c % 7"),
        (1 + A - 2, "1 + input.a - 2"),
        (8 / A + 1 % B - 3 * C, "8 / input.a + 1 % input.b - 3 * input.c"),
        (A - -1, "input.a - -1"),
        (-(A + 1), "-(input.a + 1)"),
        (-A + 1, "-input.a + 1"),
        ((A == B) == True, "(input.a == input.b) == true"),  # noqa: E712
        (A.in_(["x", B, 3]), "input.a in ['x', input.b, 3]"),
        (A.in_(B), "input.a in input.b"),
        (A == Colour.RED, "input.a == 'red'"),
        (A.in_({2, 1}), "input.a in [1, 2]"),
        (either(A["x"], True), "input.a.x ?? true"),
        (either(A, either(B, 0)) + 1, "input.a ?? (input.b ?? 0) + 1"),
        (either(A, B)["x"], "(input.a ?? input.b).x"),
    ],
)
def test_an_operator_writes_an_expression_without_needless_parentheses(drawn: Any, text: str) -> None:
    assert isinstance(drawn, Placeholder)
    assert expression_of(drawn) == text
    parse_condition(expression_of(drawn))


@given(st.text())
def test_a_text_is_written_so_that_it_reads_as_itself(text: str) -> None:
    written = operand(text).text
    if "\x00" in text or not _encodes(text):
        return
    assert parse_expression(written).evaluate({}) == text
    assert parse_condition(f"{written} == {written}").is_true({})
    [expression] = parse_template(f"${{{written}}}")
    assert not isinstance(expression, str)
    assert expression.evaluate({}) == text


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


VALUES = {"a": 3, "b": -2, "c": 0}
NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from(["a", "b", "c"]))
SUMS: list[Callable[[Any, Any], Any]] = [operator.add, operator.sub, operator.mul]
COMPARISONS: list[Callable[[Any, Any], Any]] = [
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
]
JOINS: list[Callable[[Any, Any], Any]] = [operator.and_, operator.or_]
SUM_TREES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(SUMS), inner, inner), st.tuples(st.just(operator.neg), inner)
    ),
)
CONDITION_TREES = st.recursive(
    st.tuples(st.sampled_from(COMPARISONS), SUM_TREES, SUM_TREES),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(JOINS), inner, inner), st.tuples(st.just(operator.not_), inner)
    ),
)


@given(st.one_of(SUM_TREES, CONDITION_TREES))
def test_what_is_drawn_means_what_python_means(tree: Any) -> None:
    drawn = _made(tree, named)
    if not isinstance(drawn, Placeholder):
        return  # Python has computed it: there was no placeholder in it
    value = _made(tree, VALUES.__getitem__)
    assert parse_expression(expression_of(drawn)).evaluate({"input": VALUES}) == value


def _made(tree: Any, leaf: Callable[[str], Any]) -> Any:
    if isinstance(tree, str):
        return leaf(tree)
    if not isinstance(tree, tuple):
        return tree
    operate, *operands = tree
    made = [_made(each, leaf) for each in operands]
    if operate is operator.not_:
        return ~made[0] if isinstance(made[0], Placeholder) else not made[0]
    return operate(*made)
