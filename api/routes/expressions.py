"""Endpoint that evaluates an expression, for people who write one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.expressions import EvaluateAnswer, EvaluateRequest
from pipeweave.api.http import Call, Routes
from pipeweave.errors import ExpressionFailed, FieldError, InvalidInput, InvalidReference, NotFound
from pipeweave.json_values import json_type
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.security import READ
from pipeweave.size_limits import MAX_TEXT_CHARS
from pipeweave.spec.expressions import BadExpression, Expression, parse_condition

routes = Routes("expressions")
# Of the value of a path that is shown beside the expression.
MAX_SHOWN_CHARS = 1_000


@routes.add(
    "POST",
    "/api/expressions/evaluate",
    "Evaluate an expression",
    scopes=(READ,),
    body=EvaluateRequest,
    answer=EvaluateAnswer,
    errors=(NotFound,),
    example={"expression": "input.total * 1.2 > 100", "context": {"input": {"total": 90}}},
)
def evaluate(call: Call, body: EvaluateRequest) -> dict[str, Any]:
    """The value of an expression, with the values of a context or of a run. Nothing is stored, and nothing is
    loaded from storage: an output that is too large for the state of the run is null.
    """
    expression = _parsed(body.expression)
    with call.reading() as tx:
        scope = body.context or {}
        if body.run_id is not None:
            run = ids.read(ids.RUN, body.run_id)
            scope = reading.expression_scope(tx, call.tenant, run, body.step_id)
        now = tx.now
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


def _parsed(text: str) -> Expression:
    try:
        return parse_condition(text)
    except BadExpression as error:
        problem = f"is not an expression: {error.message} (column {error.column})"
        raise InvalidInput(
            f"expression {problem}",
            errors=[FieldError("expression", problem, "invalid_expression", error.near)],
        ) from None
