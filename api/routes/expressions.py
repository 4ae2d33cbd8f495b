"""Endpoint that evaluates an expression, for people who write one."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.expressions import EvaluateAnswer, EvaluateRequest
from pipeweave.api.http import Call, Routes
from pipeweave.errors import NotFound
from pipeweave.orchestrator import reading
from pipeweave.orchestrator.security import READ
from pipeweave.spec.expressions.trial import parse_trial, try_expression

routes = Routes("expressions")


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
    expression = parse_trial(body.expression)
    with call.reading() as tx:
        scope = body.context or {}
        if body.run_id is not None:
            run = ids.read(ids.RUN, body.run_id)
            scope = reading.expression_scope(tx, call.tenant, run, body.step_id)
        now = tx.now
    return try_expression(expression, scope, now=now)
