"""What a task is given besides its parameters, and what it may give back besides a plain value."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pipeweave.errors import InvalidInput
from pipeweave.json_values import json_faults

Progress = Callable[[float, str | None], None]


@dataclass(slots=True, kw_only=True)
class Context:
    """One attempt of one task run, as its task sees it.

    Args:
        run_id: the run (`prun_…`).
        task_run_id: the task run (`trun_…`).
        task_id: the task.
        pipeline_id: the pipeline; None for a standalone task.
        step_id: the step; None for a standalone task.
        attempt: 1 for the first execution.
        input: the run's input, or the step's params where it has some.
        params: the step's params with every reference resolved; None where the step has none.
        upstream: output by step id, of every ancestor that completed; read when it is asked for.
        previous_attempts: of this task run, oldest first: attempt, error, errorCode, timestamp (ISO 8601).
        item: the item of a map.
        map_index: its 0-based place in the list; None outside a map.
        map_name: the parameter that takes the item, where the step names it.
        code_version: of the task when it was queued.
        code_hash: of the task's source.
        tenant: whose run it is.
        on_progress: receives what `progress` is told.
    """

    run_id: str = ""
    task_run_id: str = ""
    task_id: str = ""
    pipeline_id: str | None = None
    step_id: str | None = None
    attempt: int = 1
    input: Any = None
    params: Mapping[str, Any] | None = None
    upstream: Mapping[str, Any] = field(default_factory=dict)
    previous_attempts: Sequence[Mapping[str, Any]] = ()
    item: Any = None
    map_index: int | None = None
    map_name: str | None = None
    code_version: int = 1
    code_hash: str = ""
    tenant: str = ""
    on_progress: Progress | None = None

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the ids of this attempt."""
        ids = {
            "run_id": self.run_id,
            "task_run_id": self.task_run_id,
            "pipeline_id": self.pipeline_id,
            "step_id": self.step_id,
            "task_id": self.task_id,
            "attempt": self.attempt,
            "tenant": self.tenant,
        }
        return logging.LoggerAdapter(_logger(self.task_id), ids)

    def progress(self, percent: float, message: str | None = None) -> None:
        """Say how far the task is; it shows in lists, in the UI and in `--wait`.

        Args:
            percent: 0 to 100.
            message: what it is doing.

        Raises:
            InvalidInput: percent is not a number from 0 to 100, or the message no text that can be stored.
        """
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
            raise InvalidInput(f"progress is a number from 0 to 100, not {percent!r}")
        if message is not None and (not isinstance(message, str) or json_faults(message)):
            raise InvalidInput(f"the message of a progress is text without U+0000, not {message!r:.200}")
        if self.on_progress is not None:
            self.on_progress(float(percent), message)


@lru_cache(maxsize=1024)
def _logger(task_id: str) -> logging.Logger:
    return logging.getLogger(f"pipeweave.task.{task_id}" if task_id else "pipeweave.task")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result that says more than its value: `return TaskResult(rows, run_next=["report"])`.

    Args:
        output: what successors get; a JSON value.
        run_next: ids of the steps that follow, among this step's successors; None for all, [] for none. A
            step that nobody chose is skipped.
    """

    output: Any = None
    run_next: Sequence[str] | None = None
