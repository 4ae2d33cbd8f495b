"""Models of the request that evaluates an expression, and of its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from pipeweave.api.contract.requests import Name, Request
from pipeweave.errors import FieldError
from pipeweave.orchestrator.documents.base import AnswerModel, RunId
from pipeweave.spec.expressions.bounds import MAX_CHARS

_BOTH = "give `context` or `runId`, not both"
_STEP = "`stepId` needs a `runId`"


class EvaluateRequest(Request):
    """Evaluate an expression with values that are sent, or with those of a run."""

    expression: str = Field(
        min_length=1,
        max_length=MAX_CHARS,
        description="As in a condition: `input.total > 100`, or `${input.total} > 100`.",
    )
    context: dict[str, Any] | None = Field(
        None, description='Values by what paths begin with: `{"input": {"total": 5}}`.'
    )
    run_id: RunId | None = Field(None, description="The run whose values are taken.")
    step_id: Name | None = Field(None, description="Only the steps before this one have values.")

    @classmethod
    def mistakes_between_fields(cls, body: Mapping[str, Any]) -> Iterable[FieldError]:
        if body.get("context") is not None and body.get("runId") is not None:
            yield FieldError("", _BOTH, "invalid")
        if body.get("stepId") is not None and body.get("runId") is None:
            yield FieldError("", _STEP, "invalid")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.context is not None and self.run_id is not None:
            raise PydanticCustomError("both", _BOTH)
        if self.step_id is not None and self.run_id is None:
            raise PydanticCustomError("no_run", _STEP)
        return self


class EvaluationError(AnswerModel):
    """Why an expression has no value."""

    code: Literal["EXPRESSION_FAILED", "INVALID_REFERENCE"]
    message: str
    hint: str | None


class EvaluateAnswer(AnswerModel):
    """The value of an expression, or why it has none."""

    value: Any
    type: Literal["null", "boolean", "number", "text", "list", "object"] | None = Field(
        description="Of the value; null: it has none."
    )
    references: list[str] = Field(description="The paths in it.")
    values: dict[str, Any] = Field(
        description="The value of each path that exists, up to 1,000 characters of JSON long."
    )
    work: int = Field(description="Units of work that it took, of at most 100,000.")
    error: EvaluationError | None = Field(description="Why it has no value.")
