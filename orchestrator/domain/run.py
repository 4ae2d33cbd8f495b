"""Defines the run header, which the verbs of the engine take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave.labels import Labels
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.places import BodyScope
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.domain.triggered_by import TriggeredBy
from pipeweave.spec import AsyncDefaults


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that a run belongs to, and its place in the tree.

    Args:
        task_run_id: the task run that waits for the end of the child.
        root_run_id: the run that people know.
        depth: how many runs are above the child.
    """

    run_id: UUID
    task_run_id: UUID
    root_run_id: UUID
    depth: int


class RunHeader(NamedTuple):
    """The immutable part of a run, with its compiled plan.

    Args:
        triggered_by: None for a run of a version that did not store it.
        rerun_from: of a rerun from a step, that step: others may be completed before it begins.
        parent: the run that it belongs to; None for one that belongs to none.
        body: of a run of a body, its place in the version, such as `review.loop`; None for the run of a
            pipeline.
        scope: what a body sees of the steps around it; None for the run of a pipeline.
        queue: the name of the queue of its steps that name none; None for those of their tasks.
        requires: labels of the worker that all its steps require, beside their own ones; None for none.
    """

    id: UUID
    tenant: str
    pipeline_id: str | None
    pipeline_version: int | None
    failure_mode: str
    priority: int | None
    input: Any
    input_path: str | None
    plan: Plan
    triggered_by: TriggeredBy | None = None
    rerun_from: str | None = None
    parent: Parent | None = None
    body: str | None = None
    scope: BodyScope | None = None
    queue: str | None = None
    requires: Labels | None = None

    def own_timeout_s(self, step_id: str) -> float | None:
        """How long an attempt of a step may take (s), if the step says so itself, not its task."""
        ms = self.plan.specs[step_id].timeout_ms
        return None if ms is None else ms / 1000

    def own_sandbox(self, step_id: str) -> Mapping[str, Any] | None:
        """What a step says its call may use; None if it says nothing."""
        return self.plan.specs[step_id].sandbox

    def async_defaults(self, step_id: str) -> AsyncDefaults | None:
        """What a step says of calls that suspend themselves; None if it says nothing."""
        return self.plan.specs[step_id].suspends

    @property
    def root_id(self) -> UUID:
        """The run that people know, which signals name."""
        return self.id if self.parent is None else self.parent.root_run_id

    @property
    def traceparent(self) -> str | None:
        """The trace context with which it was triggered; None without one."""
        return None if self.triggered_by is None else self.triggered_by.traceparent

    @property
    def trace_id(self) -> str:
        """Its trace id, 32 hexadecimal digits."""
        return tracing.trace_id(self.id, self.traceparent)
