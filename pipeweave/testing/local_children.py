"""Run the pipeline of a step: once, or in rounds, and again where the step is retried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from pipeweave.authoring import describe, encode
from pipeweave.errors import InputValidationFailed, PipeWeaveError, TaskError
from pipeweave.schema import run_input_errors
from pipeweave.spec import WITH_OUTPUT, LoopStep, PipelineSpec, StepSpec, engine_results, rounds
from pipeweave.spec.expressions import parse_condition
from pipeweave.spec.rounds import AfterRound
from pipeweave.testing.local_attempts import retries_of
from pipeweave.testing.local_result import RunResult, StepResult

# What a run that ended badly has as its code.
STEP_FAILED = "STEP_FAILED"
# And what the step has that runs it.
CHILD_FAILED = "CHILD_FAILED"


@dataclass(slots=True)
class ChildrenOfStep:
    """The runs of one step, or of one item of its map, one after the other.

    Args:
        step: which runs a pipeline or a body.
        scope: the values that its expressions may name.
        now: when the next run begins.
        begin: gives the next run, from the values of its round and when it begins. It raises a PipeWeaveError
            if it cannot start.
    """

    step: StepSpec
    scope: Mapping[str, Any]
    now: datetime
    begin: Callable[[Mapping[str, Any], datetime], RunResult]
    runs: list[RunResult] = field(default_factory=list)

    def to_end(self) -> StepResult:
        """The result of the step."""
        start = self.now
        loop = self.step.decides
        try:
            output = self._in_rounds(loop) if isinstance(loop, LoopStep) else self._once({})
            result = StepResult("completed", output)
        except PipeWeaveError as error:
            result = StepResult("failed", error=error)
        result.runs = self.runs
        result.waited_ms = (self.now - start) // timedelta(milliseconds=1)
        return result

    def _once(self, of_round: Mapping[str, Any]) -> Any:
        """The output of a run that ended well.

        Raises:
            PipeWeaveError: the last try ended badly, a run cannot start, or an expression has no value.
        """
        tries, policy = retries_of(self.step, None)
        for number in range(1, tries + 1):
            run = self.begin(of_round, self.now)
            self.runs.append(run)
            self.now += timedelta(milliseconds=run.waited_ms)
            if run.status in WITH_OUTPUT:
                return run.output
            codes = (CHILD_FAILED, _code_of(run))
            if number == tries or not any(policy.may_retry(each, is_retryable=True) for each in codes):
                break
            self.now += timedelta(milliseconds=policy.delay_ms(number, 0))
        raise _failure(run)

    def _in_rounds(self, loop: LoopStep) -> Any:
        last, outputs = None, []
        for index in range(loop.max_rounds):
            last = self._once(rounds.scope_of_round(index, last))
            if loop.collect:
                outputs.append(last)
                if len(encode(outputs)[1]) > rounds.MAX_COLLECTED:
                    raise _refusal(engine_results.RESULT_TOO_LARGE, rounds.collected_message())
            after = rounds.after_round(loop, index, lambda: self._is_over(loop, index, last))  # noqa: B023
            if after is AfterRound.LIMIT:
                raise _refusal(rounds.LOOP_LIMIT, rounds.limit_message(loop))
            if after is AfterRound.OVER:
                break
            self.now += timedelta(milliseconds=loop.delay_ms)
        return outputs if loop.collect else last

    def _is_over(self, loop: LoopStep, index: int, last: Any) -> bool:
        assert loop.until is not None
        scope = {**self.scope, **rounds.scope_of_round(index, last)}
        return parse_condition(loop.until).is_true(scope, now=self.now)


def input_of(step: StepSpec, scope: Mapping[str, Any], item: Any, now: datetime) -> Any:
    """The input of a pipeline that a step runs: its params with the item of its map by name, or the item.

    Raises:
        ExpressionFailed, InvalidReference: a parameter has no value.
    """
    if step.params is None:
        return item if step.item_name is None else {step.item_name: item}
    named = {} if step.item_name is None else {step.item_name: item}
    return {**named, **engine_results.fill(dict(step.params), scope, now)}


def accepted(inner: PipelineSpec, params: Any) -> Any:
    """The input with the pipeline's defaults. Raises InputValidationFailed if the pipeline refuses it."""
    value = orjson.loads(orjson.dumps(inner.input_with_defaults(params)))
    if inner.input_schema is not None and (errors := run_input_errors(inner.input_schema, value)):
        detail = f"pipeline {inner.id!r} refuses the params of the step: {errors[0].sentence()}"
        raise InputValidationFailed(detail, errors=errors)
    return value


def _refusal(code: str, message: str) -> TaskError:
    return TaskError(message, code=code, retryable=False)


def _code_of(run: RunResult) -> str:
    """The code of a run that ended badly: that of its ending if none of its steps failed it."""
    error = run.ending_error
    return STEP_FAILED if error is None or error is not run.error else describe(error).code


def _failure(run: RunResult) -> TaskError:
    """Why a step fails whose run ended badly."""
    error = run.error
    assert error is not None  # a run ends badly by a step, or by its ending
    raised = describe(error)
    failed = next((id for id, each in run.steps.items() if each.error is error), None)
    why = raised.message if failed is None else f"step {failed} failed: {raised.code}: {raised.message}"
    details = {"runId": run.id, "code": _code_of(run), "message": why, "step": failed}
    failure = TaskError(f"run {run.id} failed: {why}", code=CHILD_FAILED, retryable=False, details=details)
    failure.__cause__ = error
    return failure
