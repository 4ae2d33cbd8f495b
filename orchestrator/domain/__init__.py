"""Defines values and rules without input or output: statuses, plans, task runs, failures, events.

Every room may import it. It must never import another room, a driver or Celery.
"""

from pipeweave.orchestrator.domain.call_outcome import CallOutcome, has_called, task_run_of
from pipeweave.orchestrator.domain.facts import Fact
from pipeweave.orchestrator.domain.failure import Failure, failure_of
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.months import Month
from pipeweave.orchestrator.domain.outbox import (
    UNCOUNTED,
    ChordPart,
    InvalidChord,
    JoinCheck,
    Outgoing,
    PutBack,
)
from pipeweave.orchestrator.domain.places import LAST_ROUND, BodyScope, Places, StepOutcome
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.states import STATUS_LETTERS, RunStatus, TaskStatus
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import (
    Completion,
    Dispatched,
    KeptValue,
    KeyWait,
    Suspended,
    TaskRun,
)
from pipeweave.orchestrator.domain.triggered_by import TRIGGER_KINDS, TriggeredBy
from pipeweave.orchestrator.domain.utc import in_utc
from pipeweave.orchestrator.domain.waits import WaitKind

__all__ = [
    "END",
    "LAST_ROUND",
    "STATUS_LETTERS",
    "TRIGGER_KINDS",
    "UNCOUNTED",
    "BodyScope",
    "CallOutcome",
    "ChordPart",
    "Completion",
    "Dispatched",
    "Fact",
    "Failure",
    "InvalidChord",
    "JoinCheck",
    "KeptValue",
    "KeyWait",
    "Month",
    "Outgoing",
    "Places",
    "PutBack",
    "RunHeader",
    "RunStatus",
    "StepOutcome",
    "Suspended",
    "TaskRun",
    "TaskStatus",
    "TriggeredBy",
    "WaitKind",
    "Wanted",
    "failure_of",
    "has_called",
    "in_utc",
    "iso",
    "task_run_of",
]
