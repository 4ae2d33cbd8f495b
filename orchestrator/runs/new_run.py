"""Defines a run that is to be written, and one that was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_edits import NO_EDITS, RunEdits
from pipeweave.orchestrator.domain.run_key import RunKey
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.task_run import KeptValue, TaskRun
from pipeweave.orchestrator.registry.task_rows import TaskRow
from pipeweave.orchestrator.runs.prepared_starts import PreparedStart
from pipeweave.orchestrator.state.reusing import Reused


class NewRun(NamedTuple):
    """A run to be written, with the tasks of its steps as they are registered now."""

    header: RunHeader
    input: KeptValue
    tasks: Mapping[str, TaskRow]
    metadata: Mapping[str, Any] | None = None
    run_token: str | None = None
    timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    # The key of a standalone task's only task run.
    idempotency_key: str | None = None
    # The input itself: an entry map needs it, and must not read it back from storage.
    value: Any = None
    # The run that this one repeats, and the results that it takes over if it begins at a step.
    rerun_of: UUID | None = None
    reused: Reused | None = None
    edits: RunEdits = NO_EDITS
    # None for a run of a pipeline that does not limit its runs, and for a run inside of another one.
    key: RunKey | None = None


class WrittenRun(NamedTuple):
    """A run as it was written; `pending` when its tenant had no free slot, or its key no room.

    Args:
        task_runs: empty if it was written by what was kept.
        prepared: what was kept of a run that began as this one does; None if it was written the long way.
    """

    id: UUID
    status: RunStatus
    task_runs: Sequence[TaskRun]
    prepared: PreparedStart | None = None
