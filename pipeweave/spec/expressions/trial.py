"""Tries an expression out for the one who writes it: its value, and what it was made of (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from pipeweave.errors import ExpressionFailed, FieldError, InvalidInput, InvalidReference
from pipeweave.json_values import json_type
from pipeweave.size_limits import MAX_TEXT_CHARS
from pipeweave.spec.expressions.expression import Expression, parse_condition
from pipeweave.spec.expressions.faults import BadExpression

# Of the value of a path that is shown beside the expression.
MAX_SHOWN_CHARS = 1_000


def parse_trial(text: str) -> Expression:
    """Parse an expression, written as in a condition. Raises InvalidInput with its column."""
    try:
        return parse_condition(text)
    except BadExpression as error:
        problem = f"is not an expression: {error.message} (column {error.column})"
        raise InvalidInput(
            f"expression {problem}",
            errors=[FieldError("expression", problem, "invalid_expression", error.near)],
        ) from None


def try_expression(expression: Expression, scope: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """Evaluate an expression: {value, type, references, values, work, error}.

    Args:
        scope, now: see `Expression.evaluate`.
    """
    paths = [each.text for each in expression.references]
    values = {path: value for path in dict.fromkeys(paths) for value in _value(path, scope)}
    answer = {"references": paths, "values": values, "work": 0, "error": None}
    try:
        value, work = expression.measure(scope, now=now, max_chars=MAX_TEXT_CHARS)
    except (ExpressionFailed, InvalidReference) as failure:
        why = {"code": failure.code, "message": str(failure), "hint": failure.hint}
        return {**answer, "value": None, "type": None, "error": why}
    return {**answer, "work": work, "value": value, "type": json_type(value).rpartition(" ")[2]}


def _value(path: str, scope: Mapping[str, Any]) -> Iterator[Any]:
    """The value of a path; nothing where there is none, or it is too long to be shown."""
    with suppress(ExpressionFailed, InvalidReference, BadExpression):
        yield parse_condition(path).evaluate(scope, max_chars=MAX_SHOWN_CHARS)
