"""Define the client's return values: Run, Page and Document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pipeweave.errors import FieldError, InvalidInput, PipeWeaveError, RunFailed

FINAL_STATUSES = frozenset({"completed", "partial", "failed", "cancelled"})
_FAILED_STATUSES = frozenset({"failed", "timeout"})

Document = dict[str, Any]


# At most so many failed steps are named in one message.
_NAMED_STEPS = 5


@dataclass(frozen=True, slots=True)
class RunError:
    """What ended a run.

    Args:
        code: a stable code, such as `RUN_TIMEOUT` or the code of the failed task's error.
        message: what happened, for a person.
        step_id: the step whose error it is; None for an error of the run itself, such as its time limit.
    """

    code: str
    message: str
    step_id: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the API described it at the time of the request; `document` is the whole answer."""

    id: str
    pipeline_id: str | None
    status: str
    document: Mapping[str, Any] = field(repr=False)

    @property
    def is_final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def error(self) -> RunError | None:
        """What ended the run: its own error, else that of the first failed step; None if nothing failed."""
        own = _error_of(self.document)
        failed = next(iter(self._failed_task_runs()), None)
        if own is None:
            return _error_of(failed, failed.get("stepId")) if failed else None
        is_of_step = failed is not None and failed.get("errorCode") == own.code
        return RunError(own.code, own.message, failed.get("stepId")) if failed and is_of_step else own

    @property
    def failed_steps(self) -> tuple[str, ...]:
        """The ids of the steps that failed or timed out; empty for a run from a list."""
        return tuple(dict.fromkeys(str(each.get("stepId")) for each in self._failed_task_runs()))

    def checked(self) -> Run:
        """Return the run if it is completed or has not finished yet.

        Raises:
            RunFailed: the run ended `failed`, `partial` or `cancelled`.
        """
        if not self.is_final or self.status == "completed":
            return self
        error, steps = self.error, self.failed_steps
        said = f"run {self.id} ended {self.status}"
        if error:
            place = f"step {error.step_id}: " if error.step_id else ""
            said += f": {place}{error.code}: {error.message}"
        others = [each for each in steps if error is None or each != error.step_id]
        if others:
            more = ", …" if len(others) > _NAMED_STEPS else ""
            said += f" (also failed: {', '.join(others[:_NAMED_STEPS])}{more})"
        raise RunFailed(
            said,
            hint=f"`pipeweave status {self.id}` shows its steps",
            run_id=self.id,
            run_status=self.status,
            run_code=error.code if error else None,
            run_message=error.message if error else None,
            failed_steps=steps,
        )

    def _failed_task_runs(self) -> list[Document]:
        listed = self.document.get("taskRuns") or ()
        return [each for each in listed if each.get("status") in _FAILED_STATUSES]

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of task runs by status; empty for a run from a list."""
        return self.document.get("counts") or {}

    @property
    def output(self) -> Any:
        """What the pipeline returns; without a return the output of its end step, or of several end steps by
        step id. None unless the run is `completed` or `partial`. A large value is None unless it is loaded:
        `document["outputRefs"]` names its step.
        """
        return self.document.get("output")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; `next_cursor` continues the list, None if no rows follow."""

    items: list[Document]
    next_cursor: str | None = None


def _error_of(document: Mapping[str, Any], step_id: str | None = None) -> RunError | None:
    """The error of a run's or a task run's document."""
    error = document.get("error")
    code = document.get("errorCode") or (error.get("code") if isinstance(error, dict) else None)
    if not error and not code:
        return None
    message = error.get("message") if isinstance(error, dict) else error
    return RunError(str(code or "UNKNOWN"), str(message or ""), step_id)


def checked_id(text: str) -> str:
    """Quote an id for a URL path.

    Raises:
        InvalidInput: the id is empty.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("an id must not be empty", errors=[FieldError("id", "must be a text", "required")])
    return quote(text, safe="~:@")


def without_none(**fields: Any) -> Document:
    """Build a request body from the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def document_of(answer: Any) -> Document:
    """Return the answer if it is a JSON object.

    Raises:
        PipeWeaveError: it is not an object.
    """
    if not isinstance(answer, dict):
        raise PipeWeaveError("the API's answer is not a JSON object")
    return answer


def run_of(answer: Any) -> Run:
    """Make a Run from the API's answer."""
    document = document_of(answer)
    return Run(document["id"], document.get("pipelineId"), document["status"], document)
