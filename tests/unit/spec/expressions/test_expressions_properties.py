"""Any text is parsed or refused, and any expression gives what the plainest evaluation gives."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from support.plain_expressions import Fails, Plain, value_of, written

from pipeweave.errors import ExpressionFailed, InvalidReference
from pipeweave.spec.expressions import (
    BadExpression,
    Expression,
    Known,
    check,
    parse_condition,
    parse_expression,
    parse_template,
)

# A release tries ten millions: PIPEWEAVE_TEST_TEXTS=10000000.
TRIED = int(os.environ.get("PIPEWEAVE_TEST_TEXTS", "20000"))
# Of processor time; each takes about a thousandth of it.
LONGEST_S = 0.1

SCOPE: dict[str, Any] = {
    "input": {
        "a": 1,
        "b": -2.5,
        "t": "Text",
        "l": [1, 2.0, True, None, "1"],
        "o": {"a": {"b": [1]}},
        "n": None,
    },
    "steps": {"s": {"rows": [{"id": 1, "on": True}, {"id": 2, "on": False}]}, "z": None},
}
KNOWN = Known(before=("s", "z"), excluded=("gone",))
FRAGMENTS = (
    *("input", "steps.s", "status.s", "error.step", "item", "loop.last", "last", "now()", "variables.x"),
    *(".a", ".b[0]", "[*]", "[-1]", '["k"]', "?.x", "?.[0]", "[", "]", "(", ")", "${", "}", "$${", "{"),
    *(
        " == ",
        " != ",
        " < ",
        ">=",
        " in ",
        " && ",
        "||",
        " or ",
        "and",
        "!",
        "not ",
        " + ",
        "-",
        "*",
        "/",
        "%",
    ),
    *("??", " ? ", " : ", ",", "1", "0.5", "1e3", "9" * 20, "'a'", '"b"', "'", '"', "\\", "\\u0041", "true"),
    *("null", "len(", "has(", "sum(", "split(", "like(", "time('2027-01-01T00:00:00Z')", "duration('1h')"),
    *("foo(", "_x", " ", "\n", "\t", "é", "\x00", "\ud800", "#", ";", "`", "=", "&", "|", "~", "@"),
)


def random_text(dice: random.Random) -> str:
    """Mostly nearly right: a wrong part in the midst of right ones reaches further than noise."""
    if dice.random() < 0.02:
        return dice.choice(FRAGMENTS) * dice.randrange(2_500)
    return "".join(dice.choices(FRAGMENTS, k=dice.randrange(1, 14)))


def test_any_text_is_parsed_or_refused_and_then_evaluated_or_failed() -> None:
    dice = random.Random(0)
    parsed = 0
    for _ in range(TRIED):
        text = random_text(dice)
        begin = time.process_time()
        parsed += _is_parsed(text)
        assert time.process_time() - begin < LONGEST_S, text
    assert parsed > TRIED // 100


def _is_parsed(text: str) -> bool:
    try:
        parsed: list[Expression] = [parse_expression.__wrapped__(text), parse_condition.__wrapped__(text)]
    except BadExpression as refused:
        assert 1 <= refused.column <= len(text) + 1
        parsed = []
    with suppress(BadExpression):
        parts = parse_template.__wrapped__(f"a ${{{text}}}")
        parsed += [each for each in parts if isinstance(each, Expression)]
    for expression in parsed:
        check(expression, KNOWN)
        try:
            expression.evaluate(SCOPE)
            expression.is_true(SCOPE)
        except (ExpressionFailed, InvalidReference) as failed:
            assert failed.detail
    return bool(parsed)


KEYS = ("a", "b", "t", "l", "o", "n", "rows", "id", 0, 1, -1, "*")


class Author:
    """Makes expressions, mostly of kinds that fit, so that most of them have a value."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def anything(self, depth: int) -> Plain:
        kinds = (self.number, self.text, self.listing, self.boolean, self.path, self.value)
        return self.dice.choice(kinds)(depth - 1)

    def value(self, depth: int) -> Plain:
        return "value", self.dice.choice((0, 2, 0.5, 1e308, 2**63 - 1, True, False, None, "", "1", "Text"))

    def path(self, depth: int) -> Plain:
        keys = tuple(self.dice.choices(KEYS, k=self.dice.randrange(4)))
        step = self.dice.choice(("s", "z", "gone", None))
        return ("path", "input", keys) if step is None else ("path", "steps", (step, *keys))

    def number(self, depth: int) -> Plain:
        dice = self.dice
        if depth <= 0 or dice.random() < 0.3:
            leaves: tuple[Plain, ...] = (("path", "input", ("a",)), ("path", "input", ("b",)))
            return dice.choice((*leaves, ("value", dice.choice((0, 1, 2, 3, 0.5, 1.0, 2.5, 1e308, 2**62)))))
        one, other = self.number(depth - 1), self.number(depth - 1)
        ids = ("path", "steps", (dice.choice(("s", "gone")), "rows", "*", "id"))
        return dice.choice(
            (
                ("two", dice.choice("+-*/%"), one, other),
                ("two", dice.choice("+-*/%"), other, one),
                ("minus", one),
                ("call", "len", (self.text(depth - 1),)),
                ("call", "sum", (ids,)),
                ("if", self.boolean(depth - 1), one, other),
                ("two", "??", self.path(depth), one),
            )
        )

    def text(self, depth: int) -> Plain:
        if depth <= 0 or self.dice.random() < 0.3:
            return "value", self.dice.choice(("", "1", "Text", "ex", "a"))
        one, other = self.text(depth - 1), self.text(depth - 1)
        return self.dice.choice(
            (
                ("path", "input", ("t",)),
                ("two", "+", one, other),
                ("call", "lower", (one,)),
                ("if", self.boolean(depth - 1), one, other),
            )
        )

    def listing(self, depth: int) -> Plain:
        entries = [self.anything(depth) for _ in range(self.dice.randrange(3))] if depth > 0 else []
        return self.dice.choice(
            (
                ("path", "input", ("l",)),
                ("path", "steps", ("s", "rows", "*", "on")),
                ("call", "keys", (("path", "input", ("o",)),)),
                ("list", tuple(entries)),
            )
        )

    def boolean(self, depth: int) -> Plain:
        dice = self.dice
        if depth <= 0:
            return "value", dice.choice((True, False, None))
        kind = dice.choice((self.number, self.text))
        listed = self.listing(depth - 1)
        return dice.choice(
            (
                ("two", dice.choice(("&&", "||")), self.boolean(depth - 1), self.boolean(depth - 1)),
                ("not", self.boolean(depth - 1)),
                ("two", dice.choice(("==", "!=")), self.anything(depth), self.anything(depth)),
                ("two", dice.choice(("<", "<=", ">", ">=")), kind(depth - 1), kind(depth - 1)),
                ("two", "in", self.anything(depth), listed),
                ("two", "in", self.text(depth - 1), ("path", "input", (dice.choice("to"),))),
                ("call", "has", (self.path(depth),)),
                ("call", "starts", (self.text(depth - 1), self.text(depth - 1))),
                ("call", "all", (listed,)),
            )
        )


FAILED = object()


def plain_value(plain: Plain) -> Any:
    try:
        return value_of(plain, SCOPE)
    except Fails:
        return FAILED


def real_value(expression: Expression) -> Any:
    try:
        return expression.evaluate(SCOPE)
    except (ExpressionFailed, InvalidReference):
        return FAILED


def test_an_expression_gives_what_the_plainest_evaluation_gives() -> None:
    author = Author(random.Random(0))
    kinds: Counter[type] = Counter()
    for _ in range(TRIED // 5):
        plain = author.anything(4)
        text = written(plain)
        if len(text) > 1_000:
            continue
        expected = plain_value(plain)
        kinds[type(expected)] += 1
        in_parentheses = parse_condition.__wrapped__(f"(${{ {text} }})")
        for expression in (parse_expression.__wrapped__(text), in_parentheses):
            # As texts, because Python takes 1 for 1.0 and for True.
            assert repr(real_value(expression)) == repr(expected), text
            assert all(1 <= fault.column <= len(text) + 5 for fault in check(expression, KNOWN))
    assert kinds[object] < kinds.total() / 3
    assert {int, float, str, bool, list, type(None)} <= kinds.keys()
