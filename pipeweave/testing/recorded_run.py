"""A run that was recorded, as the API, an export or an archive shows it: what each of its steps came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeweave.errors import TaskError
from pipeweave.spec.rules import FAIL_FAST
from pipeweave.testing.local_result import StepResult

Document = Mapping[str, Any]

# Final statuses that say what a step came to. One that was cancelled came to nothing.
WITH_OUTCOME = frozenset({"completed", "failed", "timeout"})
_FAILED = ("failed", "timeout")


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step of a run, with its items if it is a map.

    Args:
        task_run: its task run.
        items: those of its items, by index.
        rounds: the outputs of the rounds of a loop, in order; None if they are not known.
    """

    task_run: Document
    items: Mapping[int, Document] = field(default_factory=dict)
    rounds: Sequence[Any] | None = None

    @property
    def status(self) -> str:
        return str(self.task_run["status"])

    @property
    def why_unknown(self) -> str | None:
        """Why the record does not say what steps behind this one were given; None if it does."""
        if self.status not in WITH_OUTCOME:
            return f"it was {self.status}"
        if self.status == "completed" and self._lacks_output():
            return "its output is not in the record"
        return None

    def _lacks_output(self) -> bool:
        kept = self.task_run
        return kept.get("output") is None and kept.get("outputRef") is not None

    @property
    def attempts(self) -> Sequence[Document]:
        """Its attempts, oldest first; empty if the record has none."""
        return sorted(self.task_run.get("attempts") or (), key=lambda each: int(each["number"]))

    def failure(self) -> tuple[str | None, Document] | None:
        """The code and the error with which its calls ended, also if a rule took care of it then."""
        if self.status in _FAILED:
            return self.task_run.get("errorCode"), self.task_run.get("error") or {}
        last = self.attempts[-1:]
        if last and last[0]["status"] in _FAILED:
            return last[0].get("errorCode"), last[0].get("error") or {}
        return None

    def result(self) -> StepResult:
        """What it came to, as the rules see it."""
        kept, failed = self.task_run, self.status != "completed"
        chosen = kept.get("selectedNext")
        return StepResult(
            self.status,
            None if failed else kept.get("output"),
            _error_of(kept) if failed else None,
            None if chosen is None else tuple(chosen),
            attempts=int(kept.get("attempt") or 1),
        )


def _error_of(kept: Document) -> TaskError:
    error = kept.get("error") or {}
    code = str(kept.get("errorCode") or "UNKNOWN")
    return TaskError(str(error.get("message") or code), code=code, details=error.get("details"))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run.

    Args:
        run: its document, with its `input`.
        steps: by their ids.
    """

    run: Document
    steps: Mapping[str, RecordedStep]

    @classmethod
    def of(
        cls, run: Document, task_runs: Iterable[Document], rounds: Mapping[str, Sequence[Any]] | None = None
    ) -> RecordedRun:
        """The run with its task runs: those of steps, and of items of maps.

        Args:
            rounds: the outputs of the rounds of loops, by step.
        """
        steps: dict[str, Document] = {}
        items: dict[str, dict[int, Document]] = {}
        for each in task_runs:
            index = each.get("mapIndex")
            if index is None:
                steps[each["stepId"]] = each
            else:
                items.setdefault(each["stepId"], {})[int(index)] = each
        known = rounds or {}
        return cls(
            run, {id: RecordedStep(each, items.get(id, {}), known.get(id)) for id, each in steps.items()}
        )

    @property
    def input(self) -> Any:
        return self.run.get("input")

    @property
    def began_at(self) -> datetime:
        return _time(self.run["createdAt"])

    @property
    def trigger(self) -> dict[str, Any]:
        """As expressions see it."""
        cause = self.run.get("triggeredBy") or {}
        return {
            "type": cause.get("kind") or "api",
            "id": cause.get("id"),
            "actor": cause.get("actor"),
            "timestamp": self.run["createdAt"],
            "payload": self.input,
        }

    @property
    def edited_steps(self) -> frozenset[str]:
        """The steps whose params were edited for this run alone."""
        return frozenset((self.run.get("edits") or {}).get("params") or ())

    @property
    def was_failed_by_a_step(self) -> bool:
        """Whether the first failure of a step ended it, before other steps were called: not its time limit,
        nor an item of a map, nor that a task was removed.
        """
        if self.run["status"] != "failed" or self.run["failureMode"] != FAIL_FAST:
            return False
        steps = self.steps.values()
        items = (item for each in steps if each.status == "cancelled" for item in each.items.values())
        by_item = any(each["status"] in _FAILED for each in items)
        return not by_item and any(each.status in _FAILED for each in steps)

    def why_not(self) -> str | None:
        """Why its decisions cannot be made again; None if they can."""
        if self.run.get("body") is not None:
            return "it is a part of another run, whose values its steps have read"
        if self.run.get("finishedAt") is None:
            return f"it is {self.run['status']}: not all is decided"
        if self.input is None and self.run.get("inputRef") is not None:
            return "its input is not in the record"
        return None

    def ended_at(self, step: str) -> datetime | None:
        """When a step ended; None if the record does not say."""
        kept = self.steps.get(step)
        ended = None if kept is None else kept.task_run.get("finishedAt")
        return None if ended is None else _time(ended)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
